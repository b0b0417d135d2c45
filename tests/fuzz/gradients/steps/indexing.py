"""Elements read and written at repeated indices, which are constants, inputs or computed."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts, Value
from tests.fuzz.gradients.steps.registry import both, step


def _indices(d: Draft, size: int, shape: tuple[int, ...], wraps: bool = False) -> str:
    """Integer indices into an axis: an input or a constant."""
    low = -size if wraps and d.flag(0.3) else 0
    if d.flag(0.4):
        return str(d.whole(size, shape, low))
    d.whole(size, (), low)  # raises if the axis is empty
    d.program.inputs.popitem()
    return d.constant(d.data.integers(low, size, shape))


@step(4)
def taken(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    axis = d.axis(x) % x.rank
    shape = d.among((3,), (1,), (2, 2), (4,), (0,))
    i = _indices(d, x.shape[axis], shape)
    flat = f"{i}.reshape(-1)" if len(shape) > 1 else i
    return d.among(
        (f"{x}.take({flat}, {axis})", f"{x}.index_select({axis}, {flat})"),
        both(f"{x}.index_select({axis}, {flat})"),
        both(f"{x}[{':, ' * axis}{i}]"),
    )


@step(4)
def gathered(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    axis = d.axis(x) % x.rank
    count = d.among(1, 2, 4)
    shape = tuple(count if k == axis else n for k, n in enumerate(x.shape))
    i = _indices(d, x.shape[axis], shape)
    return d.among(
        both(f"{x}.gather({axis}, {i})"),
        (f"m.take_along_axis({x}, {i}, {axis})", f"torch.take_along_dim({x}, {i}, {axis})"),
    )


@step(3)
def by_several(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank >= 2, empty=False)
    i, j = (_indices(d, x.shape[k], d.among((3,), (3,), (2, 1), (1,)), wraps=True) for k in (0, 1))
    return d.among(
        both(f"{x}[{i}, {j}]"),
        both(f"{x}[{i}, 0]"),
        both(f"{x}[:, {j}]"),
        (f"ops.gather_nd({x}, m.stack([{i}.reshape(-1)[:1], {j}.reshape(-1)[:1]], -1))",
         f"{x}[{i}.reshape(-1)[:1], {j}.reshape(-1)[:1]]"),
    )  # fmt: skip


@step(5)
def scattered(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    axis = d.axis(x) % x.rank
    kind = d.among("none", "add", "add", "max", "min")
    size = x.shape[axis]
    count = d.chance.randint(1, size) if kind == "none" else d.among(1, 2, 4)
    shape = tuple(count if k == axis else n for k, n in enumerate(x.shape))
    updates = d.new(shape)
    if kind == "none":  # which of several updates stays is not torch's to say
        order = d.data.permuted(d.data.permutation(size)[:count])
        laid = order.reshape([-1 if k == axis else 1 for k in range(x.rank)])
        i = d.constant(laid + 0 * d.data.integers(0, 1, shape))
        return f"{x}.scatter({axis}, {i}, {updates})", f"{x}.scatter({axis}, {i}, {updates})"
    i = _indices(d, size, shape)
    reduce = {"add": "sum", "max": "amax", "min": "amin"}[kind]
    return f"{x}.scatter({axis}, {i}, {updates}, '{kind}')", f"{x}.scatter_reduce({axis}, {i}, {updates}, '{reduce}')"


def _index(d: Draft, x: Value) -> str:
    """An index of any kind into a value."""
    n = x.shape[0]
    return d.among(
        d.constant(d.data.integers(0, n, d.among((3,), (2,)))),
        str(d.whole(n, (3,))),
        f"slice({d.among(0, 1)}, None, {d.among(1, 2)})",
        str(d.chance.randrange(n)),
    )


@step(5)
def written(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    i = _index(d, x)
    how = d.among("set", "add", "add", "multiply", "max", "min")
    values = d.new(x.shape[1:] if d.flag(0.7) else ()) if d.flag(0.8) else d.number()
    return f"{x}.at[{i}].{how}({values})", f"t.put({x}, {i}, '{how}', {values})"


@step(3)
def masked(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    y = d.fitting(x.shape)
    return d.among(
        both(f"{x}.masked_fill({x} > 0.3, -1.0)"),
        both(f"m.where({y} > 0.1, {x}, 0.0)"),
        (f"{x}.at[{x} > 0.2].set(0.5)", f"{x}.masked_fill({x} > 0.2, 0.5)"),
        (f"{x}.at[{x} > 0.2].multiply(3.0)", f"torch.where({x} > 0.2, {x} * 3.0, {x})"),
    )


@step(1)
def selected(d: Draft) -> Texts:
    """As many as the data say, summed up."""
    x = d.value(lambda v: v.rank > 0, empty=False)
    mask = f"{x} > {d.among(0.0, -0.5, 0.4)}"
    return d.among(
        (f"{x}.masked_select({mask}).square().sum()", f"{x}.masked_select({mask}).square().sum()"),
        both(f"({x}[{mask}] * 2.0).sin().sum()"),
    )


@step(2)
def embedded(d: Draft) -> Texts:
    w = d.ranked(2, empty=False)
    i = _indices(d, w.shape[0], d.among((2, 3), (4,), (1,)))
    return d.among(
        (f"m.take({w}, {i}, 0)", f"{w}[{i}]"),
        (
            f"m.cast(m.one_hot({i}, {w.shape[0]}), '{d.program.dtype}') @ {w}",
            f"F.one_hot({i}, {w.shape[0]}).double() @ {w}",
        ),
    )


@step(2)
def at_several(d: Draft) -> Texts:
    """`scatter_nd`: rows, or elements, named by the last axis of the indices."""
    x = d.value(lambda v: v.rank >= 2, empty=False)
    kind = d.among("add", "add", "max", "min")
    i = d.data.integers(0, x.shape[0], 3)
    updates = d.new((3, *x.shape[1:]))
    how = {"add": "add", "max": "max", "min": "min"}[kind]
    rows = d.constant(i[:, None])
    return (
        f"ops.scatter_nd({x}, {rows}, {updates}, reduction='{kind}')",
        f"t.put({x}, {d.constant(i)}, '{how}', {updates})",
    )
