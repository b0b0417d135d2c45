"""Derivatives of ops on complex tensors.

The cotangent of z = x + iy is (dL/dx) + i (dL/dy), as in PyTorch. A linear op with real coefficients has the same rule as for
real tensors. The cotangent of the operand of a holomorphic f is g * conj(f'(z)). The rule for real tensors computes g * f'(x)
and is linear in g, so conj(rule(conj(g))) is the cotangent. Other ops have a rule here, or are differentiated as ops on parts
(`dialect/complexes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import Rule, rules
from burn.dialect.compose import number_like, plus
from burn.dialect.deferred import Value
from burn.dialect.types import PARTS, type_of

LINEAR = frozenset({
    "complex", "real", "imag", "conj", "view_as_real", "view_as_complex", "reshape", "broadcast_to", "transpose", "slice", "pad",
    "concat", "add", "sub", "neg", "stop_gradient", "barrier", "select", "gather", "gather_elements", "gather_nd",
    "scatter_elements", "scatter_nd", "reduce", "cumulative", "window_reduce",
})  # fmt: skip
"""Of reductions, sums only."""

HOLOMORPHIC = frozenset({
    "mul", "div", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "atanh", "sigmoid", "dot_general", "conv",
})  # fmt: skip


def rule_of(name: str, attrs: dict[str, Any]) -> Rule | None:
    """The rule of an op with complex operands or results; None if it is differentiated as ops on parts."""
    sums = attrs.get("kind") in (None, "sum") and attrs.get("reduction") in (None, "none", "add")
    if name in LINEAR and sums:
        return rules()[name]
    if name in HOLOMORPHIC:
        return _holomorphic(rules()[name])
    return _RULES.get(name)


def _holomorphic(real: Rule) -> Rule:
    def rule(g: Value, y: Value, *operands: Any, **attrs: Any) -> Any:
        given = real(ops.conj(g), y, *operands, **attrs)
        if isinstance(given, (list, tuple)):
            return [None if part is None else ops.conj(part) for part in given]
        return given if given is None or given is NotImplemented else ops.conj(given)

    return rule


def _scaled(x: Value, z: Value) -> Value:
    """A real number times a complex one."""
    return ops.complex(ops.mul(x, ops.real(z)), ops.mul(x, ops.imag(z)))


def _abs(g: Value, y: Value, z: Value) -> Value:
    """0 at 0, as in PyTorch."""
    return _scaled(g, ops.sign(z))


def _acosh(g: Value, y: Value, z: Value) -> Value:
    """1 / sqrt(z^2 - 1) has the wrong sign in half of the plane."""
    slope = ops.mul(ops.rsqrt(plus(z, -1.0)), ops.rsqrt(plus(z, 1.0)))
    return ops.mul(g, ops.conj(slope))


def _pow(g: Value, y: Value, a: Value, b: Value) -> list[Value]:
    """By the base 0 for an exponent of 0; by the exponent 0 for a base of 0 and an exponent that is not negative."""
    none = ops.eq(b, number_like(0.0, b))
    zero = number_like(0.0, y)
    power = ops.pow(ops.select(none, number_like(1.0, a), a), plus(b, -1.0))
    of_base = ops.select(none, zero, ops.mul(b, power))
    part = ops.real(b)
    flat = ops.and_(ops.eq(a, number_like(0.0, a)), ops.ge(part, number_like(0.0, part)))
    safe = ops.select(ops.eq(a, number_like(0.0, a)), number_like(1.0, a), a)
    logarithm = ops.select(ops.eq(a, number_like(0.0, a)), number_like(float("-inf"), a), ops.log(safe))
    of_exponent = ops.select(flat, zero, ops.mul(y, logarithm))
    return [ops.mul(g, ops.conj(of_base)), ops.mul(g, ops.conj(of_exponent))]


def _cast(g: Value, y: Value, x: Value, dtype: str, saturate: bool) -> Value | None:
    source = type_of(x).dtype
    if dtype not in PARTS:
        to = PARTS[source]
        g = ops.cast(g, dtype=to) if type_of(g).dtype != to else g
        return ops.complex(g, number_like(0.0, g))
    if source in PARTS:
        return ops.cast(g, dtype=source)
    return ops.cast(ops.real(g), dtype=source)


_RULES: dict[str, Callable[..., Any]] = {"abs": _abs, "acosh": _acosh, "pow": _pow, "cast": _cast}
