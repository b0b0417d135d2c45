"""Combines the constants in chains of one function; `fold` evaluates the result.

Integers wrap and minima have no rounding, so their order does not matter. Floating-point additions and multiplications
keep their order: (x + c) - c is a way to round, and (x * a) / b overflows in cases where x * (a / b) does not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Add, Mul
from burn.dialect.query import is_named, result_type, splat, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full

ASSOCIATIVE = ("add", "mul", "min", "max", "and", "or", "xor")

SMALL = 4096
"""The most elements of a combined constant that is larger than both of its parts."""


def _chain(rewriter: Rewriter, op: Op, *names: str) -> Op | None:
    """The previous op, one of `names`, if it and the op have a constant rhs; None if combining the constants makes
    something large."""
    inner = is_named(op.lhs, *names)
    if inner is None or not rewriter.constant(op.rhs) or not rewriter.constant(inner.rhs):
        return None
    if rewriter.constant(inner.lhs) or not used_once(op.lhs):
        return None
    a, b = type_of(inner.rhs).elements, type_of(op.rhs).elements
    assert isinstance(a, int) and isinstance(b, int)
    aligned = type_of(inner.rhs).shape == type_of(op.rhs).shape or 1 in (a, b)
    return inner if aligned or max(a, b) <= SMALL else None


@law(*ASSOCIATIVE)
def associate(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x + a) + b = x + (a + b), if neither rounds; for float multiplications if one of the factors is 1 or -1"""
    inner = _chain(rewriter, op, op.OP_NAME)
    if inner is None or not _is_associative(op, inner):
        return None
    joined = _joined(op.OP_NAME, inner.rhs, op.rhs)
    return type(op).build(inner.lhs, joined) if joined is not None else None


def _is_associative(op: Op, inner: Op) -> bool:
    if not isinstance(op, Add | Mul) or not _float(op):
        return True
    return isinstance(op, Mul) and any(splat(each.rhs) in (1, -1) for each in (op, inner))


NUMBERS: dict[str, Callable[[float, float], float]] = {"mul": operator.mul, "min": min, "max": max}


def _joined(name: str, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """a op b. Evaluates two floating-point numbers here, so that other laws see the number. None if the chain should
    not change."""
    x, y, type_ = splat(a), splat(b), type_of(a)
    if x is None or y is None or type_.dtype not in ("float32", "float64") or type_of(b).shape != type_.shape:
        return getattr(ops, f"{name}_" if name in ("and", "or") else name)(a, b)
    if math.isnan(x) or math.isnan(y):
        return None
    return full(NUMBERS[name](x, y), type_)


def _float(op: Op) -> bool:
    return DTYPES[result_type(op).dtype].kind in ("float", "complex")


ROOTS: dict[str, Callable[[float], float]] = {
    "neg": operator.neg,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}
"""Functions of one number that are evaluated here, so that other laws see the result."""


@law(*ROOTS)
def root_of_number(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """-c, sqrt(c), 1 / sqrt(c), 1 / c of one floating-point number above 0"""
    number, type_ = splat(op.x), result_type(op)
    if number is None or type_.shape != () or type_.dtype not in ("float32", "float64") or not 0 < number < math.inf:
        return None
    return full(ROOTS[op.OP_NAME](float(number)), type_)


@law("sub")
def subtract_constant(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x - c = x + (-c)"""
    number, type_ = splat(op.rhs), type_of(op.rhs)
    if not rewriter.constant(op.rhs) or rewriter.constant(op.lhs) or number == 0:
        return None
    if number is not None and DTYPES[type_.dtype].kind == "int" and number > -(2 ** (DTYPES[type_.dtype].bits - 1)):
        return ops.add(op.lhs, full(-number, type_))
    return ops.add(op.lhs, ops.neg(op.rhs))
