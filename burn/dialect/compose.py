"""Small helpers on top of the op builders, for importers and decompositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.dims import Dim, decide, plain, symbols
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, HALF_DTYPES, INTEGERS, PARTS, TensorType, type_of
from burn.errors import TypeMismatch


def number(value: complex | float | int | bool, dtype: str) -> ir.Value:
    """A scalar constant of an element type; integers are exact. Raises TypeMismatch for a complex number of a real type."""
    if isinstance(value, (complex, np.complexfloating)):
        if dtype not in PARTS:
            raise TypeMismatch("a real element type has no complex numbers", [f"{value} is no {dtype}"])
        return ops.complex(number(value.real, PARTS[dtype]), number(value.imag, PARTS[dtype]))
    bits = signed(int(value)) if dtype in INTEGERS else None
    if bits is not None and not -(2**63) <= bits < 2**63:
        raise TypeMismatch("number too large", [f"{value} does not fit 64 bits"])
    return ops.full(shape=(), dtype=dtype, value=float(value), bits=bits)


def signed(value: int) -> int:
    """An unsigned integer as the signed 64 bits of an attribute; the upper half of uint64 becomes negative."""
    return value - 2**64 if value >= 2**63 else value


def number_like(value: float | int | bool, x: ir.Value) -> ir.Value:
    return number(value, type_of(x).dtype)


def convert(x: ir.Value, dtype: str) -> ir.Value:
    """x converted to another element type, or x itself if it has that type."""
    return x if type_of(x).dtype == dtype else ops.cast(x, dtype=dtype)


def reshape(x: ir.Value, shape: tuple[Dim, ...]) -> ir.Value:
    shape = tuple(map(plain, shape))
    return x if type_of(x).shape == shape else ops.reshape(x, shape=shape)


def broadcast_to(x: ir.Value, shape: tuple[Dim, ...]) -> ir.Value:
    shape = tuple(map(plain, shape))
    return x if type_of(x).shape == shape else ops.broadcast_to(x, shape=shape)


def transpose(x: ir.Value, permutation: tuple[int, ...]) -> ir.Value:
    return x if permutation == tuple(range(len(permutation))) else ops.transpose(x, permutation=permutation)


def part(x: ir.Value, axis: int, start: Dim, size: Dim, step: int = 1) -> ir.Value:
    """`size` elements of one axis, `step` apart, starting at `start`; the other axes whole."""
    shape = type_of(x).shape
    if start == 0 and step == 1 and size == shape[axis]:
        return x
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(size if i == axis else d for i, d in enumerate(shape))
    return ops.slice(x, starts=starts, sizes=sizes, steps=tuple(step if i == axis else 1 for i in range(len(shape))))


def clamp(x: ir.Value, low: ir.Value | None, high: ir.Value | None) -> ir.Value:
    """min(max(x, low), high), either bound absent or of any shape that broadcasts, of x's element type. At a bound, x
    has the derivative 1, as in PyTorch."""
    if all(bound is None or not type_of(bound).rank for bound in (low, high)):
        return ops.clip(x, low, high)
    for bound, extreme, within in ((low, ops.max, ops.ge), (high, ops.min, ops.le)):
        if bound is not None:
            held = extreme(x, bound)
            x = ops.select(within(x, bound), x, held) if DTYPES[type_of(x).dtype].kind == "float" else held
    return x


def dim_value(dim: Dim, dtype: str = "int64") -> ir.Value:
    """A size as a scalar tensor."""
    if not symbols(dim):
        assert isinstance(dim, int)
        return number(dim, dtype)
    return convert(ops.dim_values(dims=(dim,), scalar=True), dtype)


def check_size(size: Dim, relation: str, bound: Dim, says: str = "") -> None:
    """Aborts the run unless the size has the relation to the bound. Builds nothing if the relation is known to hold;
    raises TypeMismatch if it is known not to hold."""
    holds = decide(size, relation, bound)
    if holds is False:
        raise TypeMismatch("a size does not fit", [f"{size} {relation} {bound} does not hold" + (says and f": {says}")])
    if holds is None:
        ops.check_size(size=size, relation=relation, bound=bound, says=says)


def check_equal(have: Sequence[Dim], want: Sequence[Dim], says: str) -> None:
    """Aborts the run unless the sizes are equal pairwise. A composite calls it during decomposition, because its ops
    require less (they broadcast, or read a part): named sizes that do not fit would give wrong results."""
    for a, b in zip(have, want, strict=True):
        check_size(a, "==", b, says)


def check_spreads(have: Sequence[Dim], want: Sequence[Dim], says: str) -> None:
    """Aborts the run unless a shape broadcasts to another: each of its sizes, from the last, is 1 or the other's."""
    for a, b in zip(have, want[len(want) - len(have) :], strict=True):
        if a != 1:
            check_size((a - 1) * (a - b), "==", 0, f"{says}: {a} is 1 or {b}")


def along(x: ir.Value, axis: int, rank: int) -> ir.Value:
    """A vector along one axis of `rank` axes, such that it broadcasts: shape [1.., n, ..1]."""
    type_ = type_of(x)
    if type_.rank != 1:
        raise TypeMismatch(
            "not a vector", [f"it must be a vector with one number for each index of axis {axis}, not {type_}"]
        )
    (size,) = type_.shape
    return reshape(x, tuple(size if i == axis % rank else 1 for i in range(rank)))


def wide(dtype: str) -> str:
    """The element type for sums and statistics of `dtype`: float32 for the 16-bit floats."""
    return "float32" if dtype in HALF_DTYPES else dtype


def count(x: TensorType, axes: tuple[int, ...]) -> Dim:
    """The number of elements that a reduction over `axes` combines."""
    total: Dim = 1
    for axis in axes:
        total = total * x.shape[axis]
    return total


def mean(x: ir.Value, axes: tuple[int, ...], keepdims: bool = False) -> ir.Value:
    """The mean over `axes`, in x's own element type."""
    total = ops.reduce(x, kind="sum", axes=axes, keepdims=keepdims)
    return ops.div(total, dim_value(count(type_of(x), axes), type_of(x).dtype))


def limit(dtype: str, highest: bool) -> ir.Value:
    """The largest or smallest value of an element type: an infinity for floats."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind == "float":
        return number(float("inf") if highest else float("-inf"), dtype)
    if kind == "bool":
        return number(highest, dtype)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind == "int" else (0, 2**bits - 1)
    return number(high if highest else low, dtype)


def as_list(values: Any) -> list[ir.Value]:
    """A builder's result as a list."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


def border_indices(mode: str, dim: Dim, before: Dim, after: Dim) -> ir.Value:
    """The source index of each element of an axis padded by "edge", "wrap" or "reflect": an int64 vector."""
    indices = ops.sub(ops.iota(shape=(before + dim + after,), axis=0), dim_value(before))
    zero, last = number(0, "int64"), dim_value(dim - 1)
    if mode == "edge":
        return ops.min(ops.max(indices, zero), last)
    if mode == "wrap":
        return ops.mod(indices, dim_value(dim))
    period = ops.max(ops.mul(last, number(2, "int64")), number(1, "int64"))
    return ops.sub(last, ops.abs(ops.sub(ops.mod(indices, period), last)))


# ---- numbers beside values ----------------------------------------------------------------------------------------------
def times(x: ir.Value, number: float) -> ir.Value:
    return ops.mul(x, number_like(number, x))


def plus(x: ir.Value, number: float) -> ir.Value:
    return ops.add(x, number_like(number, x))


def nonzero(x: ir.Value) -> ir.Value:
    """x, or 1 if x is 0: an unused denominator must not be 0, because 0 times infinity is NaN."""
    return ops.select(ops.eq(x, number_like(0.0, x)), number_like(1.0, x), x)


def where(condition: ir.Value, x: ir.Value, other: float = 0.0) -> ir.Value:
    """x if the condition holds, else a number."""
    return ops.select(condition, x, number_like(other, x))


def zeros_like(x: ir.Value) -> ir.Value:
    type_ = type_of(x)
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0)


def disconnect(operation: ir.Operation) -> None:
    """Lets an op with regions, and all ops in them, use values of its own regions only. The op can then be kept when the program
    that it was built for is freed."""
    dummy = None
    for region in operation.regions:
        for block in region.blocks:
            with ir.InsertionPoint.at_block_begin(block):
                dummy = number(0, "int64")
    for inner in (operation, *_inside(operation)):
        for index in range(len(inner.operands)):
            inner.operands[index] = dummy


def _inside(operation: ir.Operation) -> list[ir.Operation]:
    found = []
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                found += [op.operation, *_inside(op.operation)]
    return found
