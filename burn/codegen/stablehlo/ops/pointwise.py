"""Pointwise ops. The meaning of each function is that of `burn.kernels.numbers`."""

from __future__ import annotations

import math
from collections.abc import Callable

from burn.codegen.stablehlo.builder import Builder, Value
from burn.codegen.stablehlo.elements import carrier, is_float, is_unsigned, lowest
from burn.codegen.stablehlo.emitter import Site, emits
from burn.codegen.stablehlo.ops.casts import cast, wrapped
from burn.dialect.types import DTYPES

Rule = Callable[..., Value]

BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "min": "minimum",
    "max": "maximum",
    "atan2": "atan2",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shift_left": "shift_left",
}
"""Functions that StableHLO has, for all of their element types."""

UNARY = {
    "not": "not",
    "neg": "negate",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round_nearest_even",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "tanh": "tanh",
    "sigmoid": "logistic",
    "asin": "chlo.asin",
    "acos": "chlo.acos",
    "atan": "chlo.atan",
    "sinh": "chlo.sinh",
    "cosh": "chlo.cosh",
    "asinh": "chlo.asinh",
    "acosh": "chlo.acosh",
    "atanh": "chlo.atanh",
    "erf": "chlo.erf",
}

COMPARISONS = {name: name.upper() for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def pointwise(site: Site) -> Value:
    b, op = site.b, site.op
    shape = site.shape()
    xs = [b.spread(site.x(i), shape) for i in range(len(op.operation.operands))]
    if op.OP_NAME == "select":
        return b.select(*xs)
    if op.OP_NAME == "cast":
        return cast(b, xs[0], site.type(0).dtype, op.dtype, op.saturate)
    if op.OP_NAME == "bitcast":
        return _bitcast(b, xs[0], carrier(op.dtype))
    return apply(b, op.OP_NAME, site.type(0).dtype, *xs)


def _bitcast(b: Builder, x: Value, dtype: str) -> Value:
    """A bool is a byte for burn, and a bit for StableHLO."""
    if b.dtype_of(x) == "bool" and dtype != "bool":
        return b.convert(x, dtype)
    return b.compare("NE", x, b.like(0, x)) if dtype == "bool" else b.bitcast(x, dtype)


def apply(b: Builder, name: str, dtype: str, *xs: Value) -> Value:
    """A function of operands of one shape, of burn's element type `dtype`."""
    if name in COMPARISONS:
        return b.compare(COMPARISONS[name], *xs)
    if name in RULES:
        result = RULES[name](b, dtype, *xs)
    elif name in BINARY:
        result = b.binary(BINARY[name], *xs)
    else:
        result = b.unary(UNARY[name], *xs)
    return wrapped(b, result, dtype)


def _choose(b: Builder, condition: Value, x: Value, y: Value | float) -> Value:
    return b.select(condition, x, b.like(y, x) if isinstance(y, (int, float)) else y)


def _zero(b: Builder, x: Value) -> Value:
    return b.compare("EQ", x, b.like(0, x))


def _negative(b: Builder, x: Value) -> Value:
    return b.compare("LT", x, b.like(0, x))


# ---- division ----------------------------------------------------------------------------------------------------------
def _div(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    if not _integer(dtype):
        return b.binary("divide", x, y)
    none = _zero(b, y)
    return _choose(b, b.not_(none), b.binary("divide", x, _choose(b, b.not_(none), y, 1)), 0)


def _fmod(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    if not _integer(dtype):
        return b.binary("remainder", x, y)
    none = _zero(b, y)
    return _choose(b, b.not_(none), b.binary("remainder", x, _choose(b, b.not_(none), y, 1)), 0)


def _mod(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    rest = _fmod(b, dtype, x, y)
    if is_unsigned(dtype):
        return rest
    other = b.binary("xor", _negative(b, rest), _negative(b, y))
    if not is_float(dtype):
        return b.select(b.and_(b.not_(_zero(b, rest)), other), b.binary("add", rest, y), rest)
    moved = b.select(other, b.binary("add", rest, y), rest)
    return b.select(_zero(b, rest), _with_sign(b, rest, y), moved)


def _floordiv(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    """Python's: the floor of the exact quotient, where floor(x / y) would see a quotient rounded up to an integer."""
    rest = _fmod(b, dtype, x, y)
    if is_unsigned(dtype):
        return _div(b, dtype, x, y)
    down = b.and_(b.not_(_zero(b, rest)), b.binary("xor", _negative(b, rest), _negative(b, y)))
    if not is_float(dtype):
        quotient = _div(b, dtype, x, y)
        return b.binary("subtract", quotient, _choose(b, down, b.like(1, quotient), 0))
    quotient = b.binary("divide", b.binary("subtract", x, rest), y)
    quotient = b.select(down, b.binary("subtract", quotient, b.like(1, quotient)), quotient)
    floor = b.unary("floor", quotient)
    above = b.compare("GT", b.binary("subtract", quotient, floor), b.like(0.5, quotient))
    quotient = b.binary("add", floor, _choose(b, above, b.like(1, floor), 0))
    plain = b.binary("divide", x, y)
    return b.select(_zero(b, y), plain, b.select(_zero(b, quotient), _with_sign(b, quotient, plain), quotient))


def _with_sign(b: Builder, x: Value, sign: Value) -> Value:
    """The magnitude of x with the sign of another number. -0 is negative."""
    size = b.unary("abs", x)
    negative = _negative(b, b.bitcast(sign, f"int{DTYPES[b.dtype_of(sign)].bits}"))
    return b.select(negative, b.unary("negate", size), size)


def _integer(dtype: str) -> bool:
    return DTYPES[dtype].kind in ("int", "uint")


# ---- others ------------------------------------------------------------------------------------------------------------
def _pow(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    """C's pow: 1 to any power and anything to the power 0 are 1, NaN included; -1 to an infinite power is 1."""
    if not _integer(dtype):
        power = b.binary("power", x, y)
        even = b.compare("EQ", b.unary("abs", x), b.like(1, x))
        endless = b.compare("EQ", b.unary("abs", y), b.like(math.inf, y))
        one = b.or_(b.or_(b.compare("EQ", x, b.like(1, x)), _zero(b, y)), b.and_(even, endless))
        return b.select(one, b.like(1, x), power)
    # by squaring, modulo 2^width
    result, square, left = b.like(1, x), x, y
    for _ in range(DTYPES[dtype].bits):
        odd = b.compare("NE", b.and_(left, b.like(1, left)), b.like(0, left))
        result = b.select(odd, b.binary("multiply", result, square), result)
        square = b.binary("multiply", square, square)
        left = b.binary("shift_right_logical", left, b.like(1, left))
    if is_unsigned(dtype):
        return result
    minus = b.select(b.compare("NE", b.and_(y, b.like(1, y)), b.like(0, y)), b.like(-1, x), b.like(1, x))
    reciprocal = _choose(b, b.compare("EQ", x, b.like(1, x)), b.like(1, x), 0)
    reciprocal = b.select(b.compare("EQ", x, b.like(-1, x)), minus, reciprocal)
    return b.select(_negative(b, y), reciprocal, result)


def _shift_right(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    bits = DTYPES[dtype].bits
    if bits < 8 and not is_unsigned(dtype):  # the carrier's upper bits repeat the sign
        x = b.and_(x, b.like((1 << bits) - 1, x))
    return b.binary("shift_right_logical", x, y)


def _abs(b: Builder, dtype: str, x: Value) -> Value:
    return x if is_unsigned(dtype) else b.unary("abs", x)


def _sign(b: Builder, dtype: str, x: Value) -> Value:
    if is_unsigned(dtype):
        return _choose(b, _zero(b, x), x, 1)
    return b.unary("sign", x)


def _trunc(b: Builder, dtype: str, x: Value) -> Value:
    return b.select(_negative(b, x), b.unary("ceil", x), b.unary("floor", x))


def _reciprocal(b: Builder, dtype: str, x: Value) -> Value:
    return b.binary("divide", b.like(1, x), x)


def _isnan(b: Builder, dtype: str, x: Value) -> Value:
    return b.is_nan(x)


def _isinf(b: Builder, dtype: str, x: Value) -> Value:
    return b.compare("EQ", b.unary("abs", x), b.like(-lowest(b.dtype_of(x)), x))


def _extreme(name: str) -> Rule:
    """Of bools, min and max are `and` and `or`."""

    def rule(b: Builder, dtype: str, x: Value, y: Value) -> Value:
        if dtype == "bool":
            return (b.and_ if name == "minimum" else b.or_)(x, y)
        return b.binary(name, x, y)

    return rule


RULES: dict[str, Rule] = {
    "div": _div,
    "fmod": _fmod,
    "mod": _mod,
    "floordiv": _floordiv,
    "pow": _pow,
    "min": _extreme("minimum"),
    "max": _extreme("maximum"),
    "shift_right": _shift_right,
    "abs": _abs,
    "sign": _sign,
    "trunc": _trunc,
    "reciprocal": _reciprocal,
    "isnan": _isnan,
    "isinf": _isinf,
}
"""Functions with a form of their own."""

emits(*COMPARISONS, *RULES, *BINARY, *UNARY, "select", "cast", "bitcast")(pointwise)
