"""Scalar functions of elements, constants and conversions.

Floats of 8 bits and less are computed in float32, as burn has no arithmetic in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from burn.dialect import inverse_error, ops, special
from burn.dialect.compose import convert
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, TensorType, type_of
from burn.importers.lax import floats, integers
from burn.importers.lax.conversion import bitcast_convert, convert_element_type
from burn.importers.lax.scalars import bits_of, full, kind_of, like
from burn.importers.lax.selection import clamp as clamped
from burn.importers.stablehlo.known import of_elements
from burn.importers.stablehlo.node import POINTWISE, Node, rule
from burn.importers.stablehlo.syntax.elements import stored
from burn.importers.stablehlo.syntax.module import Elements

Value = ir.Value
INTEGER = ("int", "uint")

UNARY: dict[str, Callable[[Value], Value]] = {
    "abs": lambda x: x if kind_of(x) == "uint" else ops.abs(x),
    "cbrt": special.rounded(special.cbrt),
    "ceil": lambda x: ops.ceil(x),
    "cosine": lambda x: ops.cos(x),
    "count_leading_zeros": integers.count_leading_zeros,
    "exponential": lambda x: ops.exp(x),
    "exponential_minus_one": lambda x: ops.expm1(x),
    "floor": lambda x: ops.floor(x),
    "is_finite": floats.is_finite,
    "log": lambda x: ops.log(x),
    "log_plus_one": lambda x: ops.log1p(x),
    "logistic": lambda x: ops.sigmoid(x),
    "negate": lambda x: ops.neg(x),
    "not": lambda x: ops.not_(x),
    "popcnt": integers.population_count,
    "round_nearest_afz": floats.round_from_zero,
    "round_nearest_even": floats.round_to_even,
    "rsqrt": lambda x: ops.rsqrt(x),
    "sign": lambda x: floats.sign(x) if kind_of(x) == "float" else integers.sign(x),
    "sine": lambda x: ops.sin(x),
    "sqrt": lambda x: ops.sqrt(x),
    "tan": lambda x: ops.tan(x),
    "tanh": lambda x: ops.tanh(x),
}

BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: ops.or_(a, b) if kind_of(a) == "bool" else ops.add(a, b),
    "and": lambda a, b: ops.and_(a, b),
    "atan2": lambda a, b: ops.atan2(a, b),
    "divide": lambda a, b: integers.div(a, b) if kind_of(a) in INTEGER else ops.div(a, b),
    "maximum": lambda a, b: ops.max(a, b),
    "minimum": lambda a, b: ops.min(a, b),
    "multiply": lambda a, b: ops.and_(a, b) if kind_of(a) == "bool" else ops.mul(a, b),
    "or": lambda a, b: ops.or_(a, b),
    "power": lambda a, b: integers.power(a, b) if kind_of(a) in INTEGER else ops.pow(a, b),
    "remainder": lambda a, b: integers.rem(a, b) if kind_of(a) in INTEGER else ops.fmod(a, b),
    "shift_left": integers.shift_left,
    "shift_right_arithmetic": integers.shift_right_arithmetic,
    "shift_right_logical": integers.shift_right_logical,
    "subtract": lambda a, b: ops.sub(a, b),
    "xor": lambda a, b: ops.xor(a, b),
}

CHLO_UNARY: dict[str, Callable[[Value], Value]] = {
    "acos": lambda x: ops.acos(x),
    "acosh": lambda x: ops.acosh(x),
    "asin": lambda x: ops.asin(x),
    "asinh": lambda x: ops.asinh(x),
    "atan": lambda x: ops.atan(x),
    "atanh": lambda x: ops.atanh(x),
    "bessel_i1e": special.rounded(special.scaled_bessel(1)),
    "conj": lambda x: x,
    "cosh": lambda x: ops.cosh(x),
    "digamma": special.rounded(special.digamma),
    "erf": lambda x: ops.erf(x),
    "erf_inv": special.rounded(inverse_error.erfinv),
    "erfc": special.rounded(special.erfc),
    "is_inf": lambda x: ops.isinf(x),
    "is_neg_inf": lambda x: ops.eq(x, like(-math.inf, x)),
    "is_pos_inf": lambda x: ops.eq(x, like(math.inf, x)),
    "lgamma": special.rounded(special.lgamma),
    "sinh": lambda x: ops.sinh(x),
    "square": lambda x: ops.mul(x, x),
    "tan": lambda x: ops.tan(x),
}


def polygamma(n: Value, x: Value) -> Value:
    """The derivative of digamma of order n: (-1)^(n + 1) n! zeta(n + 1, x); NaN for an n that is no whole number from 0 on."""
    dtype = type_of(x).dtype
    n, x = convert(n, "float64"), convert(x, "float64")
    one = like(1.0, n)
    order = ops.add(n, one)
    sign = ops.sub(one, ops.mul(like(2.0, n), ops.fmod(order, like(2.0, n))))
    value = ops.mul(ops.mul(sign, ops.exp(special.lgamma(order))), special.zeta(order, x))
    value = ops.select(ops.eq(n, like(0.0, n)), special.digamma(x), value)
    whole = ops.and_(ops.eq(n, ops.floor(n)), ops.ge(n, like(0.0, n)))
    return convert(ops.select(whole, value, like(math.nan, x)), dtype)


def zeta(s: Value, q: Value) -> Value:
    return special.zeta_of_xla(s, q)


CHLO_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "mulhi": integers.multiply_high,
    "next_after": special.next_after,
    "polygamma": polygamma,
    "zeta": zeta,
}

BROADCASTING = {
    "add": BINARY["add"],
    "and": BINARY["and"],
    "atan2": BINARY["atan2"],
    "divide": BINARY["divide"],
    "maximum": BINARY["maximum"],
    "minimum": BINARY["minimum"],
    "multiply": BINARY["multiply"],
    "next_after": special.next_after,
    "or": BINARY["or"],
    "polygamma": polygamma,
    "power": BINARY["power"],
    "remainder": BINARY["remainder"],
    "shift_left": BINARY["shift_left"],
    "shift_right_arithmetic": BINARY["shift_right_arithmetic"],
    "shift_right_logical": BINARY["shift_right_logical"],
    "subtract": BINARY["subtract"],
    "xor": BINARY["xor"],
    "zeta": zeta,
}


def wide(x: Value) -> Value:
    """8-bit and smaller floats as float32."""
    return convert(x, "float32") if kind_of(x) == "small" else x


def narrow(x: Value, dtype: str) -> Value:
    return x if type_of(x).dtype == dtype else convert_element_type(x, dtype)


def _unary(function: Callable[[Value], Value]) -> Callable[[Node], Value]:
    return lambda node: narrow(function(wide(node.x(0))), node.dtype)


def _binary(function: Callable[[Value, Value], Value]) -> Callable[[Node], Value]:
    return lambda node: narrow(function(wide(node.x(0)), wide(node.x(1))), node.dtype)


for _dialect, _ones, _twos in (("stablehlo", UNARY, BINARY), ("chlo", CHLO_UNARY, CHLO_BINARY)):
    for _name, _function in _ones.items():
        rule(_name, dialect=_dialect)(_unary(_function))
        POINTWISE.add(f"{_dialect}.{_name}")
    for _name, _two in _twos.items():
        rule(_name, dialect=_dialect)(_binary(_two))
        POINTWISE.add(f"{_dialect}.{_name}")


# ---- chlo's broadcasting ops -------------------------------------------------------------------------------------------
def _aligned(node: Node) -> None:
    """chlo aligns shapes at the last axis, unless broadcast_dimensions says otherwise."""
    axes = node.ints("broadcast_dimensions", ())
    ranks = [len(node.shape(i)) for i in range(len(node.operands))]
    if axes and list(axes) != list(range(max(ranks) - min(ranks), max(ranks))):
        node.fail("a broadcast that is not aligned at the last axis is not supported")


def _broadcasting(function: Callable[[Value, Value], Value]) -> Callable[[Node], Value]:
    def build(node: Node) -> Value:
        _aligned(node)
        return narrow(function(wide(node.x(0)), wide(node.x(1))), node.dtype)

    return build


for _name, _two in BROADCASTING.items():
    rule(f"broadcast_{_name}", dialect="chlo")(_broadcasting(_two))


@rule("broadcast_select", dialect="chlo")
def broadcast_select(node: Node) -> Value:
    return ops.select(node.x(0), node.x(1), node.x(2))


# ---- comparisons and choices -------------------------------------------------------------------------------------------
COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "EQ": lambda a, b: ops.eq(a, b),
    "NE": lambda a, b: ops.ne(a, b),
    "LT": lambda a, b: ops.lt(a, b),
    "LE": lambda a, b: ops.le(a, b),
    "GT": lambda a, b: ops.gt(a, b),
    "GE": lambda a, b: ops.ge(a, b),
}


def ordered(x: Value) -> Value:
    """Integers in the total order of floats: -NaN < -inf < .. < -0 < 0 < .. < inf < NaN."""
    word = ops.bitcast(x, dtype=f"int{bits_of(x)}")
    flipped = ops.xor(word, like(2 ** (bits_of(x) - 1) - 1, word))
    return ops.select(ops.lt(word, like(0, word)), flipped, word)


@rule("compare")
def compare(node: Node) -> Value:
    kind = node.word("compare_type", "NOTYPE")
    a, b = wide(node.x(0)), wide(node.x(1))
    if kind == "TOTALORDER":
        a, b = ordered(a), ordered(b)
    return _compared(node, a, b)


@rule("broadcast_compare", dialect="chlo")
def broadcast_compare(node: Node) -> Value:
    _aligned(node)
    kind = node.word("compare_type", "NOTYPE")
    a, b = wide(node.x(0)), wide(node.x(1))
    return _compared(node, *((ordered(a), ordered(b)) if kind == "TOTALORDER" else (a, b)))


def _compared(node: Node, a: Value, b: Value) -> Value:
    direction = node.word("comparison_direction")
    if direction not in COMPARE:
        node.fail(f"has the unknown direction {direction}")
    return COMPARE[direction](a, b)


@rule("select")
def select(node: Node) -> Value:
    return ops.select(node.x(0), node.x(1), node.x(2))


@rule("clamp")
def clamp(node: Node) -> Value:
    low, x, high = (wide(x) for x in node.xs)
    return narrow(clamped(low, x, high), node.dtype)


# ---- conversions -------------------------------------------------------------------------------------------------------
@rule("convert")
def convert_(node: Node) -> Value:
    return convert_element_type(node.x(0), node.dtype)


@rule("bitcast_convert")
def bitcast(node: Node) -> Value:
    x, dtype = node.x(0), node.dtype
    have, want = DTYPES[type_of(x).dtype], DTYPES[dtype]
    if "bool" in (have.kind, want.kind) and have.name != want.name:
        node.fail("bits of bools are not supported")
    return bitcast_convert(x, dtype)


@rule("reduce_precision")
def reduce_precision(node: Node) -> Value:
    x = wide(node.x(0))
    rounded = floats.reduce_precision(x, node.integer("exponent_bits"), node.integer("mantissa_bits"))
    return narrow(rounded, node.dtype)


# ---- constants ---------------------------------------------------------------------------------------------------------
@rule("constant")
def constant(node: Node) -> Value:
    return of_attribute(node, node.attribute("value"))


@rule("constant", dialect="chlo")
def chlo_constant(node: Node) -> Value:
    return of_attribute(node, node.attribute("value"))


def of_attribute(node: Node, value: object) -> Value:
    """A `dense` attribute as a tensor."""
    if not isinstance(value, Elements):
        node.fail("has no elements")
    dtype = stored(value.type)
    if dtype is None or DTYPES[dtype].kind == "complex":
        node.fail(f"constants of {value.type.element} are not supported")
    shape = tuple(size or 0 for size in value.type.shape)
    known = of_elements(value)
    if value.splat and math.prod(shape) > 1 and DTYPES[dtype].kind != "small":
        element = value.array.reshape(())[()]
        result = full(TensorType(dtype, shape), element.item() if DTYPES[dtype].kind != "float" else float(element))
    else:
        result = node.importer.constant(np.array(value.full()), "constant")
    if known is not None:
        node.importer.note(result, known)
    return result


@rule("constant_like", dialect="chlo")
def constant_like(node: Node) -> Value:
    """One number in the shape of the operand."""
    return full(type_of(node.x(0)).with_dtype(node.dtype), node.number("value"))
