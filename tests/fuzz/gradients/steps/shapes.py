"""Elements moved, repeated, cut and joined."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts, Unfit, Value
from tests.fuzz.gradients.steps.registry import both, step


def _slice(d: Draft, size: int) -> str:
    """A slice of an axis, of any sign and step, maybe empty or past the end."""
    step_ = d.among(1, 1, 2, 3, -1, -1, -2, -3)
    start = d.among(None, None, *range(-size - 1, size + 2))
    stop = d.among(None, None, *range(-size - 1, size + 2))
    return f"slice({start}, {stop}, {step_})"


@step(7)
def sliced(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    parts = [_slice(d, n) if d.flag(0.6) else "slice(None)" for n in x.shape[: d.chance.randint(1, x.rank)]]
    if d.flag(0.2):
        parts.insert(d.chance.randint(0, len(parts)), "None")
    return both(f"m.cut({x}, {', '.join(parts)})")


@step(3)
def picked(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    axis = d.axis(x) % x.rank
    index = d.chance.randrange(-x.shape[axis], x.shape[axis])
    return both(f"{x}[{':, ' * axis}{index}]")


@step(6)
def moved(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    axis, other = d.axis(x), d.axis(x)
    order = d.chance.sample(range(x.rank), x.rank)
    return d.among(
        both(f"{x}.permute({', '.join(map(str, order))})"),
        both(f"{x}.swapaxes({axis}, {other})"),
        both(f"{x}.flip({axis})"),
        (f"{x}.flip()", f"{x}.flip({tuple(range(x.rank))})"),
        both(f"{x}.roll({d.among(1, 2, -1)}, {axis})"),
        both(f"{x}.reshape(-1)"),
        both(f"{x}.flatten()"),
        both(f"{x}.unsqueeze({axis})"),
        (f"{x}.moveaxis({axis}, {other})", f"{x}.moveaxis({axis}, {other})"),
    )


@step(2)
def of_matrices(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank >= 2)
    k = d.among(-1, 0, 1)
    return d.among(
        both(f"{x}.tril({k})"),
        both(f"{x}.triu({k})"),
        both(f"{x}.diagonal({k}, -2, -1)"),
        (f"{x}.trace({k}, -2, -1)", f"{x}.diagonal({k}, -2, -1).sum(-1)"),
        both(f"m.rot90({x}, {d.among(1, 2, 3)}, (0, 1))"),
        both(f"m.diag({x}[0].reshape(-1))"),
    )


@step(5)
def repeated(d: Draft) -> Texts:
    x = d.value()
    times = d.among(2, 3)
    if not x.rank or d.flag(0.4):
        return both(f"m.broadcast_to({x}, ({times}, {', '.join(map(str, x.shape))}))")
    axis = d.axis(x)
    counts = [times if i == axis % x.rank else 1 for i in range(x.rank)]
    return d.among(
        (f"{x}.repeat({times}, {axis})", f"{x}.repeat_interleave({times}, {axis})"),
        both(f"{x}.tile({', '.join(map(str, counts))})"),
        both(f"{x}.unsqueeze(0).expand({times}, {', '.join(['-1'] * x.rank)})"),
    )


@step(5)
def joined(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    axis = d.axis(x) % x.rank
    fits = [v for v in d.values.values() if v.rank == x.rank and _alike(v, x, axis)]
    y = d.chance.choice(fits)
    own = d.new([d.among(1, 2) if i == axis else n for i, n in enumerate(x.shape)])
    return both(
        d.among(
            f"m.cat([{x}, {y}], {axis})",
            f"m.cat([{own}, {x}, {y}, {own}], {axis})",
            f"m.stack([{x}, {x} * 2.0, {x}.sin()], {axis})",
        )
    )


def _alike(a: Value, b: Value, axis: int) -> bool:
    return all(i == axis or m == n for i, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)))


@step(3)
def parted(d: Draft) -> tuple[Texts, int]:
    x = d.value(lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = d.chance.choice([i for i, n in enumerate(x.shape) if n > 1])
    at = d.chance.randint(1, x.shape[axis] - 1)
    sizes = [at, x.shape[axis] - at]
    return (f"{x}.split([{at}], {axis})", f"{x}.split({sizes}, {axis})"), 2


@step(4)
def padded(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    mode = d.among("constant", "constant", "edge", "reflect", "wrap", "op")
    if mode == "op":
        value = d.new(())
        low, high, interior = (
            [d.among(*of) for _ in x.shape] for of in ((0, 0, 1, 2, -1), (0, 1, 0, -1), (0, 0, 1, 2))
        )
        low, high = ([max(n, 0) for n in side] for side in (low, high))
        options = f"low={tuple(low)}, high={tuple(high)}, interior={tuple(interior)}"
        return f"ops.pad({x}, {value}, {options})", f"t.padded({x}, {options}, value={value})"
    most = [n - 1 if mode in ("reflect", "wrap") else 2 for n in x.shape]
    widths = [(d.chance.randint(0, min(n, 2)), d.chance.randint(0, min(n, 2))) for n in most]
    if mode == "constant":
        return f"{x}.pad({widths}, value=0.5)", f"t.pad({x}, {widths}, value=0.5)"
    return f"{x}.pad({widths}, '{mode}')", f"t.pad({x}, {widths}, '{mode}')"


@step(2)
def unfolded(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = d.chance.choice([i for i, n in enumerate(x.shape) if n > 1])
    return both(f"{x}.unfold({axis}, {d.chance.randint(1, x.shape[axis])}, {d.among(1, 2, 3)})")


@step(1)
def reshaped(d: Draft) -> Texts:
    x = d.value(lambda v: v.size > 1)
    divisors = [n for n in range(1, x.size + 1) if x.size % n == 0]
    if not divisors:
        raise Unfit
    rows = d.among(*divisors)
    return both(f"{x}.reshape({rows}, {d.among(-1, x.size // rows)})")
