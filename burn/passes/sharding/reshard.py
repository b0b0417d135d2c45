"""Ops between two shardings of a value: gathers, slices, and reductions of partial sums."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, number, number_like, part
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, PARTS, type_of
from burn.passes.sharding.grid import Axes, Grid, Names


def moved(x: ir.Value, have: Axes, want: Axes, grid: Grid) -> ir.Value:
    """One device's block of a value under another sharding. Axes that both divide alike stay. Others are gathered, then
    divided."""
    kept = [_common(a, b) for a, b in zip(have, want, strict=True)]
    for axis, (names, stays) in enumerate(zip(have, kept, strict=True)):
        if names[len(stays) :]:
            x = gathered(x, axis, names[len(stays) :], grid)
    for axis, (names, stays) in enumerate(zip(want, kept, strict=True)):
        if names[len(stays) :]:
            x = block(x, axis, names[len(stays) :], grid)
    return x


def _common(a: Names, b: Names) -> Names:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return a[:count]


def block(x: ir.Value, axis: int, names: Names, grid: Grid) -> ir.Value:
    """The device's block of an axis."""
    size = type_of(x).shape[axis]
    assert isinstance(size, int)
    each = size // grid.count(names)
    return part(x, axis, grid.position(names) * each, each)


def _first(x: ir.Value, axis: int) -> ir.Value:
    """x with one axis moved to the front, where collectives divide and join."""
    rank = type_of(x).rank
    return x if axis == 0 else ops.transpose(x, permutation=(axis, *(i for i in range(rank) if i != axis)))


def _back(x: ir.Value, axis: int) -> ir.Value:
    if axis == 0:
        return x
    rank = type_of(x).rank
    return ops.transpose(x, permutation=(*range(1, axis + 1), 0, *range(axis + 1, rank)))


def gathered(x: ir.Value, axis: int, names: Names, grid: Grid) -> ir.Value:
    """All blocks of an axis. Complex numbers are sent as pairs of floats."""
    if type_of(x).dtype in PARTS:
        return ops.view_as_complex(gathered(ops.view_as_real(x), axis, names, grid))
    made = ops.all_gather([_first(x, axis)], groups=grid.groups(names), size=grid.count(names))
    return _back(made, axis)


def scattered(x: ir.Value, axis: int, names: Names, grid: Grid) -> ir.Value:
    """The device's block of the sum of all devices' partial sums."""
    made = ops.reduce_scatter([_first(x, axis)], groups=grid.groups(names), size=grid.count(names))
    return _back(made, axis)


def reduced(x: ir.Value, names: Names, reduction: str, grid: Grid) -> ir.Value:
    """A reduction over the devices along mesh axes. A maximum or minimum of floats is one of integers of the same order, because
    NCCL's ignores NaN."""
    dtype = type_of(x).dtype
    is_ordered = reduction in ("max", "min") and DTYPES[dtype].kind == "float"
    sent = _ordered(x, reduction) if is_ordered else x
    made = ops.all_reduce([sent], groups=grid.groups(names), size=grid.count(names), reduction=reduction)
    return _floats(made, dtype) if is_ordered else made


def _ordered(x: ir.Value, reduction: str) -> ir.Value:
    """Integers in the order of floats, NaN first for a minimum and last for a maximum. `_floats` is the inverse."""
    x = convert(x, "float64" if type_of(x).dtype == "float64" else "float32")
    word = f"int{DTYPES[type_of(x).dtype].bits}"
    least = -(1 << (DTYPES[word].bits - 1))
    nan = least if reduction == "min" else -1 - least
    return ops.select(ops.isnan(x), number(nan, word), _turned(ops.bitcast(x, dtype=word)))


def _floats(x: ir.Value, dtype: str) -> ir.Value:
    return convert(ops.bitcast(_turned(x), dtype=f"float{DTYPES[type_of(x).dtype].bits}"), dtype)


def _turned(words: ir.Value) -> ir.Value:
    """Negative words with all bits but the sign inverted: the bits of negative floats have the opposite order."""
    most = (1 << (DTYPES[type_of(words).dtype].bits - 1)) - 1
    return ops.select(ops.lt(words, number_like(0, words)), ops.xor(words, number_like(most, words)), words)


def summed(x: ir.Value, have: Axes, partial: Names, want: Axes, grid: Grid) -> tuple[ir.Value, Axes]:
    """The sum of partial sums along mesh axes, and its sharding. Where `want` divides an axis further along some of them, each
    device gets its block only."""
    rest = list(partial)
    axes = list(have)
    for axis, (names, more) in enumerate(zip(have, want, strict=True)):
        extra = more[len(names) :]
        if more[: len(names)] == names and extra and set(extra) <= set(rest):
            x = scattered(x, axis, extra, grid)
            axes[axis] = more
            rest = [name for name in rest if name not in extra]
    return (reduced(x, tuple(rest), "sum", grid) if rest else x), tuple(axes)
