"""What is known of constants before they are computed: between which finite numbers they lie. Enter at `bounds`."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import VIEWS, op_of, splat
from burn.dialect.types import DTYPES
from burn.dialect.weights import WeightStore

Bounds = tuple[float, float]
"""The least and the greatest number, both finite."""

MOST_BYTES = 1 << 20
"""Larger weights are not looked at."""


def bounds(weights: WeightStore, value: ir.Value) -> Bounds | None:
    """Between which numbers the elements of a constant float lie; None where that is not known, or where one may be
    infinite or not a number."""
    number = splat(value)
    if number is not None:
        return _finite((float(number), float(number)))
    op = op_of(value)
    if op is None:
        return None
    if op.OP_NAME == "weight":
        return _of_weight(weights, op)
    if op.OP_NAME == "constant":
        numbers = [float(n) for n in op.values] if op.bits is None else []
        return _finite((min(numbers), max(numbers))) if numbers else None
    if op.OP_NAME in VIEWS or op.OP_NAME == "cast":
        return bounds(weights, op.x)
    rule = RULES.get(op.OP_NAME)
    operands = [bounds(weights, operand) for operand in op.operation.operands] if rule is not None else []
    known = [each for each in operands if each is not None]
    return _finite(rule(*known)) if rule is not None and len(known) == len(operands) else None


def _of_weight(weights: WeightStore, op: Op) -> Bounds | None:
    if op.key not in weights or DTYPES[op.dtype].kind != "float" or weights.weight(op.key).nbytes > MOST_BYTES:
        return None
    numbers = weights.get(op.key)
    if not numbers.size or not np.isfinite(numbers).all():
        return None
    return float(numbers.min()), float(numbers.max())


def _finite(found: Bounds | None) -> Bounds | None:
    return found if found is not None and all(map(math.isfinite, found)) else None


def _ends(operation: Callable[[float, float], float], a: Bounds, b: Bounds) -> Bounds:
    """Of an operation whose extremes are at the ends of its operands."""
    numbers = [operation(x, y) for x, y in product(a, b)]
    return min(numbers), max(numbers)


def _mul(a: Bounds, b: Bounds) -> Bounds:
    return _ends(lambda x, y: x * y, a, b)


def _reciprocal(a: Bounds) -> Bounds | None:
    return (1 / a[1], 1 / a[0]) if a[0] > 0 or a[1] < 0 else None


def _div(a: Bounds, b: Bounds) -> Bounds | None:
    inverse = _reciprocal(b)
    return None if inverse is None else _mul(a, inverse)


RULES: dict[str, Callable[..., Bounds | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _mul,
    "div": _div,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "neg": lambda a: (-a[1], -a[0]),
    "reciprocal": _reciprocal,
    "sqrt": lambda a: (math.sqrt(a[0]), math.sqrt(a[1])) if a[0] >= 0 else None,
    "rsqrt": lambda a: (1 / math.sqrt(a[1]), 1 / math.sqrt(a[0])) if a[0] > 0 else None,
}
