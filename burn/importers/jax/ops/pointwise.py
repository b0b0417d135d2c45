"""Scalar functions of elements, and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect import ops, special
from burn.dialect.compose import convert, reshape
from burn.dialect.constants import written
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.dtypes import dtype_name
from burn.importers.jax.equation import Equation, primitive
from burn.importers.jax.ops import layers
from burn.importers.lax import floats, integers
from burn.importers.lax.conversion import bitcast_convert, convert_element_type
from burn.importers.lax.scalars import bits_of, kind_of, like
from burn.importers.lax.selection import clamp as clamped
from burn.importers.lax.selection import select_n as selected

INTEGER = ("int", "uint")


def _maximum(a: Value, b: Value) -> Value:
    """`max`, or `relu`, which is the same and reads better."""
    if kind_of(a) == "float" and not type_of(b).rank and written(b) == 0.0:
        return ops.relu(a)
    return ops.max(a, b)


# ---- one function for all element types, or one for integers and bools beside that of floats ------------------------------
UNARY: dict[str, Callable[[Value], Value]] = {
    "abs": lambda x: x if kind_of(x) == "uint" else ops.abs(x),
    "neg": lambda x: ops.neg(x),
    "floor": lambda x: ops.floor(x),
    "ceil": lambda x: ops.ceil(x),
    "is_finite": floats.is_finite,
    "exp": lambda x: ops.exp(x),
    "exp2": floats.exp2,
    "expm1": lambda x: ops.expm1(x),
    "log": lambda x: ops.log(x),
    "log1p": lambda x: ops.log1p(x),
    "log2": floats.log2,
    "one_minus_square": lambda x: ops.mul(ops.add(like(1, x), x), ops.sub(like(1, x), x)),
    "sqrt": lambda x: ops.sqrt(x),
    "rsqrt": lambda x: ops.rsqrt(x),
    "cbrt": special.rounded(special.cbrt),
    "square": lambda x: ops.mul(x, x),
    "logistic": lambda x: ops.sigmoid(x),
    "sin": lambda x: ops.sin(x),
    "cos": lambda x: ops.cos(x),
    "tan": lambda x: ops.tan(x),
    "asin": lambda x: ops.asin(x),
    "acos": lambda x: ops.acos(x),
    "atan": lambda x: ops.atan(x),
    "sinh": lambda x: ops.sinh(x),
    "cosh": lambda x: ops.cosh(x),
    "tanh": lambda x: ops.tanh(x),
    "asinh": lambda x: ops.asinh(x),
    "acosh": lambda x: ops.acosh(x),
    "atanh": lambda x: ops.atanh(x),
    "not": lambda x: ops.not_(x),
    "population_count": integers.population_count,
    "clz": integers.count_leading_zeros,
    "sign": lambda x: floats.sign(x) if kind_of(x) == "float" else integers.sign(x),
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: ops.or_(a, b) if kind_of(a) == "bool" else layers.add(a, b),
    "add_any": lambda a, b: ops.or_(a, b) if kind_of(a) == "bool" else ops.add(a, b),
    "sub": lambda a, b: ops.sub(a, b),
    "mul": lambda a, b: ops.and_(a, b) if kind_of(a) == "bool" else ops.mul(a, b),
    "div": lambda a, b: integers.div(a, b) if kind_of(a) in INTEGER else ops.div(a, b),
    "rem": lambda a, b: integers.rem(a, b) if kind_of(a) in INTEGER else ops.fmod(a, b),
    "max": lambda a, b: _maximum(a, b),
    "min": lambda a, b: ops.min(a, b),
    "atan2": lambda a, b: ops.atan2(a, b),
    "nextafter": special.next_after,
    "mulhi": integers.multiply_high,
    "and": lambda a, b: ops.and_(a, b),
    "or": lambda a, b: ops.or_(a, b),
    "xor": lambda a, b: ops.xor(a, b),
    "shift_left": integers.shift_left,
    "shift_right_logical": integers.shift_right_logical,
    "shift_right_arithmetic": integers.shift_right_arithmetic,
    "eq": lambda a, b: ops.eq(a, b),
    "ne": lambda a, b: ops.ne(a, b),
    "lt": lambda a, b: ops.lt(a, b),
    "le": lambda a, b: ops.le(a, b),
    "gt": lambda a, b: ops.gt(a, b),
    "ge": lambda a, b: ops.ge(a, b),
}


def _unary(function: Callable[[Value], Value]) -> Callable[..., Value]:
    def rule(eqn: Equation, x: Value) -> Value:
        return _narrow(function(_wide(x)), eqn)

    return rule


def _binary(function: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    def rule(eqn: Equation, a: Value, b: Value) -> Value:
        return _narrow(function(_wide(a), _wide(b)), eqn)

    return rule


def _wide(x: Value) -> Value:
    """8-bit and smaller floats as float32, in which they are computed."""
    return convert(x, "float32") if kind_of(x) == "small" else x


def _narrow(x: Value, eqn: Equation) -> Value:
    return convert_element_type(x, eqn.dtype) if type_of(x).dtype == "float32" else x


for _name, _function in UNARY.items():
    primitive(_name)(_unary(_function))
for _name, _two in BINARY.items():
    primitive(_name)(_binary(_two))


@primitive("le_to", "lt_to", "eq_to")
def total_order(eqn: Equation, a: Value, b: Value) -> Value:
    """Comparisons in the total order of floats: -NaN < -inf < .. < -0 < 0 < .. < inf < NaN."""
    compare = {"le_to": ops.le, "lt_to": ops.lt, "eq_to": ops.eq}[eqn.op]
    if kind_of(a) == "float":
        a, b = _ordered(a), _ordered(b)
    return compare(a, b)


def _ordered(x: Value) -> Value:
    """Integers in the total order of the floats."""
    bits = bits_of(x)
    word = ops.bitcast(x, dtype=f"int{bits}")
    flipped = ops.xor(word, like(2 ** (bits - 1) - 1, word))
    return ops.select(ops.lt(word, like(0, word)), flipped, word)


@primitive("round")
def round_(eqn: Equation, x: Value, *, rounding_method: Any) -> Value:
    away = int(rounding_method) == 0  # AWAY_FROM_ZERO
    return floats.round_from_zero(x) if away else floats.round_to_even(x)


@primitive("pow")
def pow_(eqn: Equation, a: Value, b: Value) -> Value:
    if kind_of(a) in INTEGER:
        return integers.power(a, b)
    return ops.pow(a, convert_element_type(b, type_of(a).dtype))


@primitive("integer_pow")
def integer_pow(eqn: Equation, x: Value, *, y: int) -> Value:
    return _narrow(floats.integer_power(_wide(x), y), eqn)


@primitive("reduce_precision")
def reduce_precision(eqn: Equation, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    return floats.reduce_precision(x, exponent_bits, mantissa_bits)


@primitive("convert_element_type")
def convert_element_type_(eqn: Equation, x: Value, *, new_dtype: Any, weak_type: bool, sharding: Any) -> Value:
    return convert_element_type(x, dtype_name(new_dtype))


@primitive("bitcast_convert_type")
def bitcast_convert_type(eqn: Equation, x: Value, *, new_dtype: Any) -> Value:
    return bitcast_convert(x, dtype_name(new_dtype))


@primitive("select_n")
def select_n(eqn: Equation, which: Value, *cases: Value) -> Value:
    words = eqn.key_axes(1)
    if words and type_of(which).rank:
        which = reshape(which, (*type_of(which).shape, *(1 for _ in words)))
    return selected(which, cases)


@primitive("clamp")
def clamp(eqn: Equation, low: Value, x: Value, high: Value) -> Value:
    return clamped(low, x, high)


@primitive("copy", "copy_p", "stop_gradient", "optimization_barrier_p")
def copy(eqn: Equation, x: Value) -> Value:
    return x
