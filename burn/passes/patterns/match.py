"""Helpers for patterns: factors, polynomials, means, and approximate equality of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Add, Div, Mul, Neg, Sub
from burn.dialect.query import is_named, op_of, splat, used_once
from burn.dialect.types import type_of
from burn.passes.algebra.law import Law

PATTERNS: dict[str, list[Law]] = {}
"""The patterns of `recognise` by the name of their last op, in the order of trial."""

CLOSE = 1e-5
"""The relative tolerance for a formula's numbers, which models often contain with few digits."""


def pattern(*names: str) -> Callable[[Law], Law]:
    """Registers a pattern that ends in one of these ops."""

    def register(function: Law) -> Law:
        for name in names:
            PATTERNS.setdefault(name, []).append(function)
        return function

    return register


def near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=CLOSE)


@dataclass(frozen=True)
class Factors:
    """number * factors[0] * factors[1] ..."""

    number: float
    factors: tuple[ir.Value, ...]


def factors(op: Op) -> Factors:
    """An op's result as a number times factors that are not multiplications themselves. An inner multiplication with
    other readers is one factor."""
    number, found = 1.0, []
    stack: list[ir.Value] = [op.operation.results[0]]
    while stack:
        value = stack.pop()
        inner = op_of(value)
        constant = splat(value)
        if constant is not None:
            number *= constant
        elif inner is not None and isinstance(inner, Mul) and (inner == op or used_once(value)):
            stack += [inner.rhs, inner.lhs]
        elif inner is not None and isinstance(inner, Div) and (inner == op or used_once(value)) and splat(inner.rhs):
            number /= splat(inner.rhs) or 1.0
            stack.append(inner.lhs)
        else:
            found.append(value)
    return Factors(number, tuple(found))


def polynomial(value: ir.Value, x: ir.Value, depth: int = 8) -> dict[int, float] | None:
    """The coefficients of a value as a polynomial in x, by power; None if it is not one."""
    if value == x:
        return {1: 1.0}
    number = splat(value)
    if number is not None:
        return {0: float(number)}
    op = is_named(value, "add", "sub", "mul", "div", "neg")
    if op is None or depth == 0:
        return None
    a = polynomial(op.operation.operands[0], x, depth - 1)
    if isinstance(op, Neg):
        return None if a is None else {power: -c for power, c in a.items()}
    b = polynomial(op.rhs, x, depth - 1)
    if a is None or b is None:
        return None
    if isinstance(op, Add | Sub):
        sign = 1 if isinstance(op, Add) else -1
        return {power: a.get(power, 0.0) + sign * b.get(power, 0.0) for power in a.keys() | b.keys()}
    if isinstance(op, Div):
        return {power: c / b[0] for power, c in a.items()} if b.keys() == {0} and b[0] != 0 else None
    made: dict[int, float] = {}
    for i, c in a.items():
        for j, d in b.items():
            made[i + j] = made.get(i + j, 0.0) + c * d
    return made


def is_polynomial(value: ir.Value, x: ir.Value, **coefficients: float) -> bool:
    """True if the value is the polynomial in x with these coefficients (p1=2.0 is 2 x), and no other terms."""
    found = polynomial(value, x)
    want = {int(name[1:]): c for name, c in coefficients.items()}
    return found is not None and found.keys() == want.keys() and all(near(c, want[p]) for p, c in found.items())


@dataclass(frozen=True)
class Mean:
    """The mean of `x` over `axes`, which remain as axes of size 1."""

    x: ir.Value
    axes: tuple[int, ...]


def mean_of(value: ir.Value) -> Mean | None:
    """A sum over known axes divided by their number of elements."""
    op = is_named(value, "div", "mul")
    total = is_named(op.lhs, "reduce") if op is not None else None
    if op is None or total is None or total.kind != "sum" or not total.keepdims:
        return None
    number, type_ = splat(op.rhs), type_of(total.x)
    axes = tuple(sorted(a % type_.rank for a in total.axes))
    count = product(type_.shape[a] for a in axes)
    if number is None or number == 0 or not isinstance(count, int):
        return None
    fits = near(number, count) if isinstance(op, Div) else near(1 / number, count)
    return Mean(total.x, axes) if fits else None
