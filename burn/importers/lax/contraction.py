"""dot_general, also of operands of different element types."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES, type_of
from burn.importers.lax.conversion import convert_element_type
from burn.importers.lax.scalars import is_empty, like


def dot_general(
    lhs: Value,
    rhs: Value,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: str | None = None,
) -> Value:
    """Multiplies and sums over the contracting axes. Shapes: lhs and rhs -> [batch.., rest of lhs.., rest of rhs..].

    dtype: the result's element type, that of lhs by default. Bools are multiplied by `and` and added by `or`."""
    dtype = dtype or type_of(lhs).dtype
    common = _computed_in(type_of(lhs).dtype, type_of(rhs).dtype, dtype)
    a, b = convert_element_type(lhs, common), convert_element_type(rhs, common)
    sizes = type_of(lhs).shape, type_of(rhs).shape
    if is_empty([sizes[0][axis] for axis in contract[0]]):
        return broadcast_to(number(0, dtype), _shape(sizes, contract, batch))
    axes = {
        "lhs_contract": tuple(contract[0]),
        "rhs_contract": tuple(contract[1]),
        "lhs_batch": tuple(batch[0]),
        "rhs_batch": tuple(batch[1]),
    }
    if dtype == "bool":
        total = ops.dot_general(convert(a, "int32"), convert(b, "int32"), **axes)
        return ops.ne(total, like(0, total))
    return convert_element_type(ops.dot_general(a, b, **axes, **_result(common, dtype)), dtype)


def _computed_in(lhs: str, rhs: str, result: str) -> str:
    """The element type of both operands: theirs if they agree, else the widest of the three. A contraction of floats is
    summed in floats, also for a result of integers."""
    floats = [d for d in (lhs, rhs) if DTYPES[d].kind in ("float", "small")]
    if floats and DTYPES[result].kind in ("int", "uint"):
        return max(("float32", *floats), key=lambda d: DTYPES[d].bits)
    if lhs == rhs and DTYPES[lhs].kind in ("float", "int", "uint", "bool"):
        narrow = DTYPES[lhs].kind != DTYPES[result].kind or DTYPES[result].bits > DTYPES[lhs].bits
        return result if narrow and result != "bool" and DTYPES[lhs].bits > 16 else lhs
    if DTYPES[result].kind == "float":
        return result if DTYPES[result].bits >= 32 else "float32"
    return result


def _result(common: str, dtype: str) -> dict[str, str]:
    """The attribute `dtype` where the contraction gives a wider type itself."""
    if common in ("float16", "bfloat16") and dtype == "float32":
        return {"dtype": dtype}
    if common in ("int8", "uint8") and dtype == "int32":
        return {"dtype": dtype}
    return {}


def _shape(
    sizes: tuple[tuple[Dim, ...], tuple[Dim, ...]],
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]],
) -> tuple[Dim, ...]:
    rest = [
        d
        for size, own, shared in zip(sizes, contract, batch, strict=True)
        for i, d in enumerate(size)
        if i not in own and i not in shared
    ]
    return (*(sizes[0][i] for i in batch[0]), *rest)
