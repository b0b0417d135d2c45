"""Bounds of constants before they are evaluated. Enter at `bounds`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from burn.dialect.mlir import ir
from burn.dialect.pointwise import Cast
from burn.dialect.query import op_of, splat
from burn.dialect.shape import Constant, Weight
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES
from burn.dialect.weights import WeightStore

MOST_BYTES = 1 << 20
"""Larger weights are not inspected."""


class Bounds(NamedTuple):
    """The least and the greatest number, both finite, and the least magnitude."""

    low: float
    high: float
    near: float

    @staticmethod
    def between(low: float, high: float, near: float = 0.0) -> Bounds:
        return Bounds(low, high, max(near, low, -high))


def bounds(weights: WeightStore, value: ir.Value) -> Bounds | None:
    """Bounds of a constant float's elements; None if unknown, or if an element may be infinite or NaN."""
    number = splat(value)
    if number is not None:
        return _of_numbers(np.array([number], np.float64))
    op = op_of(value)
    if op is None:
        return None
    if isinstance(op, Weight):
        known = op.key in weights and DTYPES[op.dtype].kind == "float" and weights.weight(op.key).nbytes <= MOST_BYTES
        return _of_numbers(weights.get(op.key)) if known else None
    if isinstance(op, Constant):
        return _of_numbers(np.array(op.values, np.float64)) if op.bits is None else None
    if op.has(Trait.VIEW) or isinstance(op, Cast):
        return bounds(weights, op.x)
    rule = RULES.get(op.OP_NAME)
    operands = [bounds(weights, operand) for operand in op.operation.operands] if rule is not None else []
    known = [each for each in operands if each is not None]
    found = rule(*known) if rule is not None and len(known) == len(operands) else None
    return found if found is not None and all(map(math.isfinite, found)) else None


def _of_numbers(numbers: np.ndarray) -> Bounds | None:
    if not numbers.size or not np.isfinite(numbers).all():
        return None
    return Bounds(float(numbers.min()), float(numbers.max()), float(np.abs(numbers).min()))


def _mul(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Bounds.between(min(ends), max(ends), a.near * b.near)


def _reciprocal(a: Bounds) -> Bounds | None:
    if not a.near:
        return None
    largest = 1 / a.near
    return Bounds.between(
        -largest if a.low < 0 else 1 / a.high, largest if a.high > 0 else 1 / a.low, 1 / max(a.high, -a.low)
    )


def _div(a: Bounds, b: Bounds) -> Bounds | None:
    inverse = _reciprocal(b)
    return None if inverse is None else _mul(a, inverse)


def _sqrt(a: Bounds) -> Bounds | None:
    return Bounds.between(math.sqrt(a.low), math.sqrt(a.high)) if a.low >= 0 else None


def _rsqrt(a: Bounds) -> Bounds | None:
    root = _sqrt(a)
    return None if root is None else _reciprocal(root)


RULES: dict[str, Callable[..., Bounds | None]] = {
    "add": lambda a, b: Bounds.between(a.low + b.low, a.high + b.high),
    "sub": lambda a, b: Bounds.between(a.low - b.high, a.high - b.low),
    "mul": _mul,
    "div": _div,
    "max": lambda a, b: Bounds.between(max(a.low, b.low), max(a.high, b.high)),
    "min": lambda a, b: Bounds.between(min(a.low, b.low), min(a.high, b.high)),
    "neg": lambda a: Bounds(-a.high, -a.low, a.near),
    "reciprocal": _reciprocal,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
}
