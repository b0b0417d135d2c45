"""Changes of the element type: values, and bits read as another type."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, reshape
from burn.dialect.deferred import Value
from burn.dialect.types import DTYPES, type_of
from burn.importers.lax.scalars import extreme, kind_of, like


def convert_element_type(x: Value, dtype: str) -> Value:
    """Values in another type. Integers wrap; a float becomes the nearest integer towards zero that the type has, NaN 0; a bool
    is true for everything but 0."""
    have = type_of(x).dtype
    if have == dtype:
        return x
    source, target = kind_of(x), DTYPES[dtype].kind
    if target == "bool":
        return ops.ne(x, like(0, x))
    if source in ("float", "small") and target in ("int", "uint"):
        wide = convert(x, "float32") if DTYPES[have].bits < 32 else x
        return _saturated(wide, dtype)
    if target == "small":
        return ops.cast(x, dtype=dtype, saturate=False)
    return ops.cast(x, dtype=dtype)


def _saturated(x: Value, dtype: str) -> Value:
    """A float of 32 or 64 bits as an integer."""
    low, high = extreme(dtype, False), extreme(dtype, True)
    if DTYPES[dtype].bits < 8:
        limited = ops.min(ops.max(x, like(float(low), x)), like(float(high), x))
        return ops.cast(ops.select(ops.isnan(x), like(0.0, x), limited), dtype=dtype)
    outside = ops.or_(ops.isnan(x), ops.or_(ops.le(x, like(float(low), x)), ops.ge(x, like(float(high), x))))
    inside = ops.cast(ops.select(outside, like(0.0, x), x), dtype=dtype)
    result = ops.select(ops.ge(x, like(float(high), x)), like(high, inside), inside)
    return ops.select(ops.le(x, like(float(low), x)), like(low, inside), result)


def bitcast_convert(x: Value, dtype: str) -> Value:
    """The same bits. To a narrower type: a last axis is added for the parts, lowest first; to a wider one: it is joined."""
    type_ = type_of(x)
    have, want = DTYPES[type_.dtype].bits, DTYPES[dtype].bits
    if have == want:
        return ops.bitcast(x, dtype=dtype)
    if have > want:
        count = have // want
        word = ops.bitcast(x, dtype=f"uint{have}")
        shape = type_.shape
        shifts = ops.mul(ops.iota(shape=(count,), axis=0, dtype=f"uint{have}"), like(want, word))
        parts = ops.shift_right(reshape(word, (*shape, 1)), shifts)
        narrow = convert(ops.and_(parts, like(2**want - 1, parts)), f"uint{want}")
        return ops.bitcast(narrow, dtype=dtype)
    count = want // have
    word = convert(ops.bitcast(x, dtype=f"uint{have}"), f"uint{want}")
    shifts = ops.mul(ops.iota(shape=(count,), axis=0, dtype=f"uint{want}"), like(have, word))
    joined = ops.reduce(ops.shift_left(word, shifts), kind="sum", axes=(type_.rank - 1,))
    return ops.bitcast(joined, dtype=dtype)
