"""Conversions between element types."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Eq
from burn.dialect.query import is_named, result_type, splat
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full

SIGNIFICAND = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
EXPONENT = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def holds(wide: str, narrow: str) -> bool:
    """True if every value of `narrow` is a value of `wide`."""
    if wide == narrow:
        return True
    a, b = DTYPES[wide], DTYPES[narrow]
    if b.kind == "bool":
        return a.kind in ("int", "uint", "float")
    if b.kind == "float":
        return a.kind == "float" and SIGNIFICAND[wide] >= SIGNIFICAND[narrow] and EXPONENT[wide] >= EXPONENT[narrow]
    if b.kind in ("int", "uint"):
        if a.kind == "float":
            return SIGNIFICAND[wide] >= b.bits and EXPONENT[wide] >= 8
        signed = a.kind == "int" and (b.kind == "int" or a.bits > b.bits) and a.bits >= b.bits
        return signed or (a.kind == b.kind == "uint" and a.bits >= b.bits)
    return False


@law("cast", "bitcast")
def no_cast(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """cast(x, type of x) = x"""
    return op.x if type_of(op.x).dtype == op.dtype else None


@law("cast")
def cast_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """cast(cast(x, b), c) = cast(x, c), if b holds every value of x's type. Not for an integer through a float to a
    narrower integer: integers wrap, but floats out of range do not."""
    inner = is_named(op.x, "cast")
    if inner is None or not holds(inner.dtype, type_of(inner.x).dtype):
        return None
    source = type_of(inner.x).dtype
    kinds = [DTYPES[each].kind for each in (source, inner.dtype, op.dtype)]
    if (
        kinds[1] == "float"
        and kinds[0] in ("int", "uint")
        and kinds[2] in ("int", "uint")
        and not holds(op.dtype, source)
    ):
        return None
    return inner.x if source == op.dtype else ops.cast(inner.x, dtype=op.dtype, saturate=op.saturate)


@law("barrier")
def cast_behind_barrier(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """barrier(cast(x)) = cast(barrier(x)), if x has fewer bits: the wider one need not be in memory"""
    inner = is_named(op.x, "cast")
    if inner is None or DTYPES[type_of(inner.x).dtype].bits >= DTYPES[inner.dtype].bits:
        return None
    return ops.cast(ops.barrier(inner.x, op.after), dtype=inner.dtype, saturate=inner.saturate)


@law("cast")
def cast_of_splat(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A number cast to another element type becomes a constant if that is exact."""
    number = splat(op.x)
    type_ = result_type(op)
    kind = DTYPES[type_.dtype].kind
    if number is None:
        return None
    if kind == "bool":
        return full(number != 0, type_)
    if kind == "float" and number == int_or_nan(number) and abs(number) <= 256:  # exact in every float type
        return full(float(number), type_)
    if kind in ("int", "uint") and number == int_or_nan(number):
        bits = DTYPES[type_.dtype].bits
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind == "int" else (0, 2**bits - 1)
        return full(int(number), type_) if low <= number <= high else None
    return None


def int_or_nan(number: float | int | bool) -> float:
    """The number's integer part; NaN for infinities and NaN, which equals nothing."""
    return int(number) if abs(number) < 2**63 else float("nan")


@law("eq", "ne")
def compare_cast_bool(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """cast(b) == 0 is not b, cast(b) != 0 is b, for a bool b; the opposite for 1"""
    inner, number = is_named(op.lhs, "cast"), splat(op.rhs)
    if inner is None or type_of(inner.x).dtype != "bool" or number not in (0, 1):
        return None
    if type_of(inner.x).shape != result_type(op).shape:
        return None
    return inner.x if (isinstance(op, Eq)) == bool(number) else ops.not_(inner.x)


@law("cast")
def cast_select(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """cast(select(c, a, b)) = select(c, cast(a), cast(b)), for numbers a and b"""
    inner = is_named(op.x, "select")
    if inner is None or splat(inner.on_true) is None or splat(inner.on_false) is None:
        return None
    a, b = (convert(v, op.dtype) for v in (inner.on_true, inner.on_false))
    return ops.select(inner.condition, a, b)
