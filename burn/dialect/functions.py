"""Scalar functions: one row holds all facts about a function, except for its code on a device.

A row has the function's name, meaning, element types, derivative, cost, and its names in numpy, ONNX and PyTorch. The
rows define the pointwise op classes (`pointwise.py`), the differentiation rules, the reference interpreter of kernels, and
ONNX export. For functions of one operand they also define methods of `Tensor` and the tables of importers. The code for devices
is in `codegen/cpu/math.py`, `codegen/triton/functions.py` and `codegen/stablehlo/ops/pointwise.py`.

A derivative is `f(g, y, x)`, or `f(g, y, a, b)` for two operands: it returns the cotangents of the operands, given the
result y and its cotangent g. At a corner (abs, max, min) it follows PyTorch: 0 at abs(0), a half for equal operands of
max or min.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import nonzero, number_like, plus, times, where
from burn.dialect.constants import written
from burn.dialect.deferred import Value


@dataclass(frozen=True)
class Function:
    """A scalar function of `arity` operands of one element type, which is of one of the `kinds`. The result is a bool
    for a `predicate`, otherwise of the operands' type.

    half: mixed precision computes it in half precision if its operands are. expensive: it takes ten instructions or
    more, so fusion stores a result that several kernels read instead of recomputing it. numpy: its meaning for floats,
    on numpy scalars. onnx, aten: the operators that equal this function for floats, "Atanh" and "atanh"
    (`aten.atanh.default`); "" if there is none. domain: the operands for which a unary function is defined, unless that
    is all.
    """

    name: str
    arity: int
    doc: str
    kinds: tuple[str, ...] = ("float",)
    predicate: bool = False
    half: bool = False
    expensive: bool = False
    numpy: Callable[..., Any] | None = None
    onnx: str = ""
    aten: str = ""
    domain: tuple[float, float] = (-math.inf, math.inf)
    derivative: Callable[..., Any] | None = None


def _minimum(a: float, b: float) -> float:
    return a if math.isnan(a) else b if math.isnan(b) or b < a else a


def _maximum(a: float, b: float) -> float:
    return a if math.isnan(a) else b if math.isnan(b) or b > a else a


def _sigmoid(x: np.float64) -> np.float64:
    e = np.exp(-np.abs(x))
    return 1.0 / (1.0 + e) if not x < 0 else e / (1.0 + e)


def _rsqrt(x: np.float64) -> np.float64:
    return 1.0 / np.sqrt(x)


def _pow(a: Any, b: Any) -> Any:
    """np.power takes the square root for an exponent of 0.5 that is a scalar. C's pow differs from it at -0 and -inf."""
    a, b = np.broadcast_arrays(a, b)
    return np.power(np.stack([a, a]), np.stack([b, np.ones_like(b)]))[0]


def _square(x: Value) -> Value:
    return ops.mul(x, x)


def _one_minus_square(x: Value) -> Value:
    return ops.sub(number_like(1.0, x), _square(x))


def _of_base(g: Value, a: Value, b: Value) -> Value:
    """b a^(b - 1), and 0 for b = 0, where the power is 1 for every a."""
    exponent = written(b)
    if exponent == 2.0:
        return ops.mul(g, times(a, 2.0))
    if exponent == 0.0:
        return times(g, 0.0)
    if exponent is not None:
        return ops.mul(g, times(ops.pow(a, number_like(exponent - 1.0, a)), exponent))
    some = ops.ne(b, number_like(0.0, b))
    base = ops.select(some, a, number_like(1.0, a))  # 0 to the power of -1 is infinite
    return ops.mul(g, where(some, ops.mul(b, ops.pow(base, plus(b, -1.0)))))


def _of_exponent(g: Value, y: Value, a: Value, b: Value) -> Value:
    """a^b log a; 0 for a = 0 and b >= 0, where the power is 0 (or 1) for every exponent nearby."""
    flat = ops.and_(ops.eq(a, number_like(0.0, a)), ops.ge(b, number_like(0.0, b)))
    return ops.mul(g, ops.select(flat, number_like(0.0, y), ops.mul(y, ops.log(a))))


def _chosen(g: Value, loses: Value, ties: Value) -> Value:
    """A NaN neither loses nor ties: both operands receive the cotangent, as in PyTorch."""
    return ops.select(ties, times(g, 0.5), ops.select(loses, number_like(0.0, g), g))


def _of_angle(g: Value, a: Value, b: Value) -> tuple[Value, Value]:
    """0 for (0, 0), as in PyTorch. Divided twice by the length: its square may overflow or vanish."""
    length = nonzero(ops.hypot(a, b))
    share = ops.div(g, length)
    return ops.mul(share, ops.div(b, length)), ops.neg(ops.mul(share, ops.div(a, length)))


_NUMBER = ("float", "int", "uint", "complex")
_REAL = ("float", "int", "uint")
_ANY = ("float", "int", "uint", "bool", "complex", "string")
_FIELD = ("float", "complex")
_BITS = ("int", "uint", "bool")

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "add", 2, "a + b", _NUMBER,
        half=True, numpy=np.add, onnx="Add",
        derivative=lambda g, y, a, b: (g, g),
    ),
    Function(
        "sub", 2, "a - b", _NUMBER,
        half=True, numpy=np.subtract, onnx="Sub",
        derivative=lambda g, y, a, b: (g, ops.neg(g)),
    ),
    Function(
        "mul", 2, "a * b", _NUMBER,
        half=True, numpy=np.multiply, onnx="Mul",
        derivative=lambda g, y, a, b: (ops.mul(g, b), ops.mul(g, a)),
    ),
    Function(
        "div", 2, "a / b; integers truncate towards zero, and x / 0 is 0", _NUMBER,
        half=True, numpy=np.divide,
        derivative=lambda g, y, a, b: (ops.div(g, b), ops.neg(ops.div(ops.mul(g, y), b))),
    ),
    Function(
        "floordiv", 2, "floor(a / b)", _REAL,
        numpy=np.floor_divide,
    ),
    Function(
        "fmod", 2, "the remainder with the sign of a (C's fmod and %)", _REAL,
        numpy=np.fmod,
        derivative=lambda g, y, a, b: (g, ops.neg(ops.mul(g, ops.trunc(ops.div(a, b))))),
    ),
    Function(
        "mod", 2, "the remainder with the sign of b (Python's %)", _REAL,
        numpy=np.mod,
        derivative=lambda g, y, a, b: (g, ops.neg(ops.mul(g, ops.floordiv(a, b)))),
    ),
    Function(
        "pow", 2, "a to the power b, with C pow's edge cases", _NUMBER,
        numpy=_pow, expensive=True, onnx="Pow",
        derivative=lambda g, y, a, b: (_of_base(g, a, b), _of_exponent(g, y, a, b)),
    ),
    Function(
        "min", 2, "the smaller; NaN if either is", (*_REAL, "bool"),
        half=True, numpy=_minimum, onnx="Min",
        derivative=lambda g, y, a, b: (_chosen(g, ops.gt(a, b), ops.eq(a, b)), _chosen(g, ops.gt(b, a), ops.eq(a, b))),
    ),
    Function(
        "max", 2, "the larger; NaN if either is", (*_REAL, "bool"),
        half=True, numpy=_maximum, onnx="Max",
        derivative=lambda g, y, a, b: (_chosen(g, ops.lt(a, b), ops.eq(a, b)), _chosen(g, ops.lt(b, a), ops.eq(a, b))),
    ),
    Function(
        "atan2", 2, "the angle of the point (b, a)",
        numpy=np.arctan2, expensive=True,
        derivative=lambda g, y, a, b: _of_angle(g, a, b),
    ),
    Function(
        "eq", 2, "a == b", _ANY,
        predicate=True, onnx="Equal",
    ),
    Function(
        "ne", 2, "a != b", _ANY,
        predicate=True,
    ),
    Function(
        "lt", 2, "a < b", (*_REAL, "bool"),
        predicate=True, onnx="Less",
    ),
    Function(
        "le", 2, "a <= b", (*_REAL, "bool"),
        predicate=True, onnx="LessOrEqual",
    ),
    Function(
        "gt", 2, "a > b", (*_REAL, "bool"),
        predicate=True, onnx="Greater",
    ),
    Function(
        "ge", 2, "a >= b", (*_REAL, "bool"),
        predicate=True, onnx="GreaterOrEqual",
    ),
    Function(
        "and", 2, "bitwise and; logical for bool", _BITS,
    ),
    Function(
        "or", 2, "bitwise or; logical for bool", _BITS,
    ),
    Function(
        "xor", 2, "bitwise exclusive or", _BITS,
    ),
    Function(
        "shift_left", 2, "a shifted left by b bits; 0 when b is the width or more", ("int", "uint"),
    ),
    Function(
        "shift_right", 2, "a shifted right by b bits, filled with zeros", ("int", "uint"),
    ),
    Function(
        "not", 1, "every bit inverted; logical for bool", _BITS,
    ),
    Function(
        "neg", 1, "-a", _NUMBER,
        half=True, numpy=np.negative, onnx="Neg",
        derivative=lambda g, y, x: ops.neg(g),
    ),
    Function(
        "abs", 1, "the magnitude, a real number", _NUMBER,
        half=True, numpy=np.abs, onnx="Abs",
        derivative=lambda g, y, x: ops.mul(g, ops.sign(x)),
    ),
    Function(
        "sign", 1, "-1, 0 or 1, of complex numbers a / abs(a); NaN stays NaN", _NUMBER,
        numpy=np.sign, onnx="Sign",
    ),
    Function(
        "floor", 1, "the next integer towards minus infinity",
        numpy=np.floor, onnx="Floor",
    ),
    Function(
        "ceil", 1, "the next integer towards infinity",
        numpy=np.ceil, onnx="Ceil",
    ),
    Function(
        "round", 1, "the nearest integer, halves to even",
        numpy=np.rint, onnx="Round",
    ),
    Function(
        "trunc", 1, "the next integer towards zero",
        numpy=np.trunc,
    ),
    Function(
        "sqrt", 1, "the square root", _FIELD,
        numpy=np.sqrt, onnx="Sqrt", aten="sqrt", domain=(0, math.inf),
        derivative=lambda g, y, x: ops.div(times(g, 0.5), y),
    ),
    Function(
        "rsqrt", 1, "1 / sqrt(a)", _FIELD,
        numpy=_rsqrt, aten="rsqrt", domain=(0, math.inf),
        derivative=lambda g, y, x: ops.mul(times(g, -0.5), ops.mul(y, _square(y))),
    ),
    Function(
        "reciprocal", 1, "1 / a", _FIELD,
        numpy=np.reciprocal, onnx="Reciprocal", aten="reciprocal",
        derivative=lambda g, y, x: ops.neg(ops.mul(g, _square(y))),
    ),
    Function(
        "exp", 1, "e to the power a", _FIELD,
        numpy=np.exp, expensive=True, onnx="Exp", aten="exp",
        derivative=lambda g, y, x: ops.mul(g, y),
    ),
    Function(
        "expm1", 1, "exp(a) - 1 without cancellation", _FIELD,
        numpy=np.expm1, expensive=True, aten="expm1",
        derivative=lambda g, y, x: ops.mul(g, plus(y, 1.0)),
    ),
    Function(
        "log", 1, "the natural logarithm", _FIELD,
        numpy=np.log, expensive=True, onnx="Log", aten="log", domain=(0, math.inf),
        derivative=lambda g, y, x: ops.div(g, x),
    ),
    Function(
        "log1p", 1, "log(1 + a) without cancellation", _FIELD,
        numpy=np.log1p, expensive=True, aten="log1p", domain=(-1, math.inf),
        derivative=lambda g, y, x: ops.div(g, plus(x, 1.0)),
    ),
    Function(
        "sin", 1, "the sine of a in radians", _FIELD,
        numpy=np.sin, expensive=True, onnx="Sin", aten="sin",
        derivative=lambda g, y, x: ops.mul(g, ops.cos(x)),
    ),
    Function(
        "cos", 1, "the cosine of a in radians", _FIELD,
        numpy=np.cos, expensive=True, onnx="Cos", aten="cos",
        derivative=lambda g, y, x: ops.neg(ops.mul(g, ops.sin(x))),
    ),
    Function(
        "tan", 1, "the tangent of a in radians", _FIELD,
        numpy=np.tan, expensive=True, onnx="Tan", aten="tan",
        derivative=lambda g, y, x: ops.mul(g, plus(_square(y), 1.0)),
    ),
    Function(
        "asin", 1, "the arc sine", _FIELD,
        numpy=np.arcsin, expensive=True, onnx="Asin", aten="asin", domain=(-1, 1),
        derivative=lambda g, y, x: ops.mul(g, ops.rsqrt(_one_minus_square(x))),
    ),
    Function(
        "acos", 1, "the arc cosine", _FIELD,
        numpy=np.arccos, expensive=True, onnx="Acos", aten="acos", domain=(-1, 1),
        derivative=lambda g, y, x: ops.neg(ops.mul(g, ops.rsqrt(_one_minus_square(x)))),
    ),
    Function(
        "atan", 1, "the arc tangent", _FIELD,
        numpy=np.arctan, expensive=True, onnx="Atan", aten="atan",
        derivative=lambda g, y, x: ops.div(g, plus(_square(x), 1.0)),
    ),
    Function(
        "sinh", 1, "the hyperbolic sine", _FIELD,
        numpy=np.sinh, expensive=True, onnx="Sinh", aten="sinh",
        derivative=lambda g, y, x: ops.mul(g, ops.cosh(x)),
    ),
    Function(
        "cosh", 1, "the hyperbolic cosine", _FIELD,
        numpy=np.cosh, expensive=True, onnx="Cosh", aten="cosh",
        derivative=lambda g, y, x: ops.mul(g, ops.sinh(x)),
    ),
    Function(
        "tanh", 1, "the hyperbolic tangent", _FIELD,
        half=True, numpy=np.tanh, expensive=True, onnx="Tanh", aten="tanh",
        derivative=lambda g, y, x: ops.mul(g, _one_minus_square(y)),
    ),
    Function(
        "asinh", 1, "the inverse hyperbolic sine", _FIELD,
        numpy=np.arcsinh, expensive=True, onnx="Asinh", aten="asinh",
        derivative=lambda g, y, x: ops.mul(g, ops.rsqrt(plus(_square(x), 1.0))),
    ),
    Function(
        "acosh", 1, "the inverse hyperbolic cosine", _FIELD,
        numpy=np.arccosh, expensive=True, onnx="Acosh", aten="acosh", domain=(1, math.inf),
        derivative=lambda g, y, x: ops.mul(g, ops.rsqrt(plus(_square(x), -1.0))),
    ),
    Function(
        "atanh", 1, "the inverse hyperbolic tangent", _FIELD,
        numpy=np.arctanh, expensive=True, onnx="Atanh", aten="atanh", domain=(-1, 1),
        derivative=lambda g, y, x: ops.div(g, _one_minus_square(x)),
    ),
    Function(
        "erf", 1, "the error function 2/sqrt(pi) * integral of exp(-t^2) from 0 to a",
        numpy=math.erf, expensive=True, onnx="Erf", aten="erf",
        derivative=lambda g, y, x: ops.mul(g, times(ops.exp(ops.neg(_square(x))), 2.0 / math.sqrt(math.pi))),
    ),
    Function(
        "sigmoid", 1, "1 / (1 + exp(-a))", _FIELD,
        half=True, numpy=_sigmoid, expensive=True, onnx="Sigmoid", aten="sigmoid",
        derivative=lambda g, y, x: ops.mul(g, ops.mul(y, ops.sub(number_like(1.0, y), y))),
    ),
    Function(
        "isnan", 1, "whether a is NaN", _FIELD,
        predicate=True, onnx="IsNaN",
    ),
    Function(
        "isinf", 1, "whether a is an infinity", _FIELD,
        predicate=True, onnx="IsInf",
    ),
)  # fmt: skip

BY_NAME = {row.name: row for row in FUNCTIONS}
