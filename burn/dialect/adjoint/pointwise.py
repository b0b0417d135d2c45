"""Derivatives of the scalar functions: a table. Where a function has a corner (abs, max, min), its sides share the cotangent as
PyTorch does it: nothing at abs(0), halves where both sides of a max or min are equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import nonzero, plus, rule, times, where, written
from burn.dialect.compose import convert, number_like
from burn.dialect.deferred import Value
from burn.dialect.types import FLOATS, type_of


def _square(x: Value) -> Value:
    return ops.mul(x, x)


ONE: dict[str, Callable[[Any, Any, Any], Value]] = {
    "neg": lambda g, y, x: ops.neg(g),
    "abs": lambda g, y, x: ops.mul(g, ops.sign(x)),
    "sqrt": lambda g, y, x: ops.div(times(g, 0.5), y),
    "rsqrt": lambda g, y, x: ops.mul(times(g, -0.5), ops.mul(y, _square(y))),
    "reciprocal": lambda g, y, x: ops.neg(ops.mul(g, _square(y))),
    "exp": lambda g, y, x: ops.mul(g, y),
    "expm1": lambda g, y, x: ops.mul(g, plus(y, 1.0)),
    "log": lambda g, y, x: ops.div(g, x),
    "log1p": lambda g, y, x: ops.div(g, plus(x, 1.0)),
    "sin": lambda g, y, x: ops.mul(g, ops.cos(x)),
    "cos": lambda g, y, x: ops.neg(ops.mul(g, ops.sin(x))),
    "tan": lambda g, y, x: ops.mul(g, plus(_square(y), 1.0)),
    "asin": lambda g, y, x: ops.mul(g, ops.rsqrt(_one_minus_square(x))),
    "acos": lambda g, y, x: ops.neg(ops.mul(g, ops.rsqrt(_one_minus_square(x)))),
    "atan": lambda g, y, x: ops.div(g, plus(_square(x), 1.0)),
    "sinh": lambda g, y, x: ops.mul(g, ops.cosh(x)),
    "cosh": lambda g, y, x: ops.mul(g, ops.sinh(x)),
    "tanh": lambda g, y, x: ops.mul(g, _one_minus_square(y)),
    "asinh": lambda g, y, x: ops.mul(g, ops.rsqrt(plus(_square(x), 1.0))),
    "acosh": lambda g, y, x: ops.mul(g, ops.rsqrt(plus(_square(x), -1.0))),
    "atanh": lambda g, y, x: ops.div(g, _one_minus_square(x)),
    "erf": lambda g, y, x: ops.mul(g, times(ops.exp(ops.neg(_square(x))), 2.0 / math.sqrt(math.pi))),
    "sigmoid": lambda g, y, x: ops.mul(g, ops.mul(y, ops.sub(number_like(1.0, y), y))),
}
"""x̄ of y = f(x)."""

TWO: dict[str, Callable[[Any, Any, Any, Any], tuple[Value, Value]]] = {
    "add": lambda g, y, a, b: (g, g),
    "sub": lambda g, y, a, b: (g, ops.neg(g)),
    "mul": lambda g, y, a, b: (ops.mul(g, b), ops.mul(g, a)),
    "div": lambda g, y, a, b: (ops.div(g, b), ops.neg(ops.div(ops.mul(g, y), b))),
    "fmod": lambda g, y, a, b: (g, ops.neg(ops.mul(g, ops.trunc(ops.div(a, b))))),
    "mod": lambda g, y, a, b: (g, ops.neg(ops.mul(g, ops.floordiv(a, b)))),
    "pow": lambda g, y, a, b: (_of_base(g, a, b), _of_exponent(g, y, a, b)),
    "max": lambda g, y, a, b: (_chosen(g, ops.lt(a, b), ops.eq(a, b)), _chosen(g, ops.lt(b, a), ops.eq(a, b))),
    "min": lambda g, y, a, b: (_chosen(g, ops.gt(a, b), ops.eq(a, b)), _chosen(g, ops.gt(b, a), ops.eq(a, b))),
    "atan2": lambda g, y, a, b: _of_angle(g, a, b),
}
"""(ā, b̄) of y = f(a, b)."""


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


for _name, _of_one in ONE.items():
    rule(_name)(_of_one)
for _name, _of_two in TWO.items():
    rule(_name)(_of_two)


@rule("select")
def select(g: Value, y: Value, condition: Value, on_true: Value, on_false: Value) -> list[Value | None]:
    zero = number_like(0.0, g)
    return [None, ops.select(condition, g, zero), ops.select(condition, zero, g)]


@rule("cast")
def cast(g: Value, y: Value, x: Value, dtype: str, saturate: bool) -> Value | None:
    to = type_of(x).dtype
    return convert(g, to) if to in FLOATS else None
