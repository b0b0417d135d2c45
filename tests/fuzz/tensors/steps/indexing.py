"""Steps that index: slices, numbers, new axes, integer and bool tensors, in any mixture."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.tensors.draft import Draft, Unfit, Value
from tests.fuzz.tensors.steps.registry import step


def _slice(d: Draft, size: int) -> str:
    far = [] if d.named else [size, size + 3, -size - 2]
    start, stop = (d.random.choice([None, None, 0, 1, 2, -1, -2, *far]) for _ in range(2))
    return f"slice({start}, {stop}, {d.random.choice([None, None, 1, 2, -1, -1, -2, 3])})"


def _number(d: Draft, size: int) -> str:
    if not size:
        raise Unfit
    return str(d.random.choice([0, -1]) if d.named else d.random.randrange(-size, size))


def _indices(d: Draft, size: int, shape: Sequence[int]) -> str:
    """Integers within an axis: written in the program, held by it, or computed."""
    if not size:
        raise Unfit
    how = d.random.random()
    if how < 0.3:
        found = [v for v in d.values if v.dtype in ("int64", "int32") and v.ndim <= 2 and 0 < v.size <= 40]
        if found:
            return f"m.op('%', {d.random.choice(found).name}, {2 if d.named else size})"
    low, high = (-2, 2) if d.named else (-size, size)
    values = d.data.integers(max(low, -size), min(high, size), tuple(shape)).tolist()
    return f"m.{'ints' if how < 0.7 else 'held'}({values})"


def _spread(d: Draft, entries: list[str], rank: int) -> str:
    """Entries with new axes and ... among them."""
    for position in range(len(entries), -1, -1):
        if d.random.random() < 0.1:
            entries.insert(position, "None")
    if d.random.random() < 0.25:
        entries.insert(d.random.randint(0, len(entries)), "...")
    return ", ".join(entries)


@step(9)
def basic(d: Draft) -> None:
    v = d.any(1)
    entries = [
        _number(d, size) if d.random.random() < 0.3 and size else _slice(d, size)
        for size in v.shape[: d.random.randint(1, v.ndim)]
    ]
    d.add(f"m.get({v.name}, ({_spread(d, entries, v.ndim)},))")


@step(6)
def by_integers(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.size > 0)
    shape = d.random.choice([(3,), (2, 1), (1, 3), (5,), ()])
    entries = []
    for size in v.shape[: d.random.randint(1, v.ndim)]:
        roll = d.random.random()
        kind = _indices(d, size, shape) if roll < 0.5 else _slice(d, size) if roll < 0.85 else _number(d, size)
        entries.append(kind)
    d.add(f"m.get({v.name}, ({_spread(d, entries, v.ndim)},))")


def _masks(d: Draft, value: Value) -> list[str]:
    """Bool tensors over the first axes of a value."""
    return [w.name for w in d.values if w.dtype == "bool" and w.ndim and w.shape == value.shape[: w.ndim]]


@step(4)
def by_mask(d: Draft) -> None:
    v = d.any(1)
    masks = _masks(d, v)
    if not d.named and d.random.random() < 0.3:
        rank = d.random.randint(1, v.ndim)
        masks.append(f"m.bools({(d.data.random(v.shape[:rank]) < 0.5).tolist()})")
    if not masks and v.dtype != "bool":
        masks.append(f"m.op('>', {v.name}, 0)")
    if not masks:
        raise Unfit
    d.add(f"m.get({v.name}, {d.random.choice(masks)})")


@step(5)
def written(d: Draft) -> None:
    v = d.numbers(1)
    how = d.random.choice(["set", "add", "multiply", "max", "min"])
    masks = _masks(d, v)
    if masks and d.random.random() < 0.4:
        d.add(f"m.at({v.name}, {d.random.choice(masks)}, {how!r}, {d.random.choice([0, 1, 2])})")
        return
    entries = []
    for size in v.shape[: d.random.randint(1, v.ndim)]:
        roll = d.random.random()
        if roll < 0.3 and size and how != "set":  # the order of two writes to one element is unspecified
            entries.append(_indices(d, size, (3,)))
        else:
            entries.append(_number(d, size) if roll < 0.5 and size else _slice(d, size))
    value = d.random.choice(["1", "2", *(w.name for w in d.values if w.dtype == v.dtype and w.ndim <= 1)])
    d.add(f"m.at({v.name}, ({', '.join(entries)},), {how!r}, {value})")


@step(3)
def taken(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.size > 0)
    axis = d.axis(v)
    indices = _indices(d, v.shape[axis], d.random.choice([(), (3,), (2, 2), (7,)]))
    d.add(f"m.take({v.name}, {indices}, {axis})")


@step(2)
def along_an_axis(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.size > 0)
    axis = d.axis(v)
    order = d.add(f"m.argsort({v.name}, {axis})")[0]
    if d.random.random() < 0.5:
        d.add(f"m.take_along_axis({v.name}, {order.name}, {axis})")
    elif v.dtype != "bool":
        how = d.random.choice(["none", "add"])
        d.add(f"m.scatter({v.name}, {axis % v.ndim}, {order.name}, {v.name}, {how!r})")
