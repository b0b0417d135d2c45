"""Strength reduction: cheaper functions for powers, quotients and roots. Results differ at most by rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.compose import number_like
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Sqrt
from burn.dialect.query import is_named, result_type, splat, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, fit, law
from burn.passes.algebra.signs import is_positive
from burn.passes.constants import full

POWERS: dict[float, Callable[[ir.Value], ir.Value]] = {
    2.0: lambda x: ops.mul(x, x),
    3.0: lambda x: ops.mul(ops.mul(x, x), x),
    4.0: lambda x: (lambda square: ops.mul(square, square))(ops.mul(x, x)),
}
ROOTS: dict[float, Callable[[ir.Value], ir.Value]] = {
    0.5: lambda x: ops.sqrt(x),
    -0.5: lambda x: ops.rsqrt(x),
    -1.0: lambda x: ops.reciprocal(x),
}
"""Floats only."""

AT_INFINITY = {0.5: math.inf, -0.5: 0.0}
"""C's pow(-inf, .), whose root is NaN. Its pow(-0.0, .) equals that of 0.0, while the root keeps the sign."""


def _is_float(value: ir.Value) -> bool:
    return DTYPES[type_of(value).dtype].kind == "float"


@law("pow")
def power(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x^2 = x * x, x^0.5 = sqrt(x), and so on, by the tables POWERS and ROOTS; x^0 = 1"""
    exponent = splat(op.rhs)
    if exponent is None:
        return None
    if exponent == 0:
        return full(1, result_type(op))
    build = POWERS.get(exponent) or (ROOTS.get(exponent) if _is_float(op.lhs) else None)
    if build is None:
        return None
    if exponent not in AT_INFINITY or is_positive(op.lhs):
        return fit(build(op.lhs), result_type(op))
    root = build(ops.add(op.lhs, number_like(0.0, op.lhs)))
    at = number_like(AT_INFINITY[exponent], op.lhs)
    return fit(ops.select(ops.eq(op.lhs, number_like(-math.inf, op.lhs)), at, root), result_type(op))


@law("div")
def divide_by_power_of_two(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x / c = x * (1 / c) if 1 / c is exact: c is a power of two"""
    c = splat(op.rhs)
    if c is None or not _is_float(op.lhs) or c == 0 or not math.isfinite(c):
        return None
    exact = abs(math.frexp(c)[0]) == 0.5 and 2**-14 <= abs(c) <= 2**14  # a normal number in every float type
    return ops.mul(op.lhs, full(1 / c, type_of(op.rhs))) if exact else None


@law("div")
def divide_by_root(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """1 / sqrt(v) = rsqrt(v); x / sqrt(v) = x * rsqrt(v), if there are fewer roots than quotients"""
    root = is_named(op.rhs, "sqrt")
    if root is None or rewriter.constant(op.rhs) or not used_once(op.rhs):
        return None
    if splat(op.lhs) == 1:
        return fit(ops.rsqrt(root.x), result_type(op))
    fewer = type_of(op.rhs).shape != result_type(op).shape
    return ops.mul(op.lhs, ops.rsqrt(root.x)) if fewer and type_of(op.lhs).dtype in ("float32", "float64") else None


@law("div")
def reciprocal(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """1 / x = reciprocal(x); floats only"""
    if splat(op.lhs) == 1 and _is_float(op.lhs) and not rewriter.constant(op.rhs):
        return fit(ops.reciprocal(op.rhs), result_type(op))
    return None


@law("reciprocal")
def reciprocal_of_root(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """1 / sqrt(x) = rsqrt(x); 1 / rsqrt(x) = sqrt(x)"""
    inner = is_named(op.x, "sqrt", "rsqrt")
    if inner is None or not used_once(op.x):
        return None
    return ops.rsqrt(inner.x) if isinstance(inner, Sqrt) else ops.sqrt(inner.x)
