"""Ops that return an operand or a constant: neutral and absorbing elements, involutions, idempotent functions.

No law here changes a number, including the sign of a zero; which of two zeros a minimum or maximum returns is
undefined.
"""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Add, Div, Sub
from burn.dialect.query import is_named, result_type, splat
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, fit, law
from burn.passes.algebra.signs import has_no_negative_zero, hides_sign_of_zero
from burn.passes.constants import full

COMMUTATIVE = ("add", "mul", "min", "max", "and", "or", "xor", "eq", "ne")

LOWEST, HIGHEST, ONES = "lowest", "highest", "ones"  # numbers that depend on the element type

NEUTRAL: dict[str, float | str] = {
    "add": 0,
    "sub": 0,
    "mul": 1,
    "div": 1,
    "pow": 1,
    "max": LOWEST,
    "min": HIGHEST,
    "and": ONES,
    "or": 0,
    "xor": 0,
    "shift_left": 0,
    "shift_right": 0,
}
"""x op e = x."""

ABSORBING: dict[str, float | str] = {"mul": 0, "and": 0, "or": ONES}
"""x op a = a; not for floats, where NaN and infinities times 0 are NaN."""

INVOLUTIONS = ("neg", "not")
"""f(f(x)) = x"""

ROUNDINGS = ("floor", "ceil", "round", "trunc")
IDEMPOTENT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ROUNDINGS, ROUNDINGS),
    "abs": ("abs", "exp", "sigmoid"),
    "relu": ("relu", "exp", "sigmoid", "hard_sigmoid", "softmax"),
    "sign": ("sign",),
}
"""f(g(x)) = g(x) for each g, whose results are fixed points of f."""

EVEN = ("abs", "cos", "cosh")
"""f(-x) = f(x)"""

SAME = ("min", "max", "and", "or")
"""f(x, x) = x"""


def _number(name: float | str, dtype: str) -> float | int:
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if not isinstance(name, str):
        return name
    if name == ONES:
        return -1 if kind == "int" else 2**bits - 1
    if kind == "float":
        return -math.inf if name == LOWEST else math.inf
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind == "int" else (0, 2**bits - 1)
    return low if name == LOWEST else high


@law(*COMMUTATIVE)
def constant_right(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """c + x = x + c, and so on: constants move to the rhs."""
    if rewriter.constant(op.lhs) and not rewriter.constant(op.rhs):
        return type(op).build(op.rhs, op.lhs)
    return None


@law(*NEUTRAL)
def neutral(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x + 0 = x, x * 1 = x, and so on, by the table NEUTRAL."""
    lhs, rhs = op.lhs, op.rhs
    for value, other in ((lhs, rhs), (rhs, lhs)) if op.OP_NAME in COMMUTATIVE else ((lhs, rhs),):
        number = splat(other)
        if number is not None and number == _number(NEUTRAL[op.OP_NAME], type_of(lhs).dtype):
            return fit(value, result_type(op)) if _keeps_zeros(op, value, number) else None
    return None


def _keeps_zeros(op: Op, value: ir.Value, number: float) -> bool:
    """Only -0.0 + 0.0 and -0.0 - -0.0 differ from the operand: they are 0.0."""
    if not isinstance(op, Add | Sub) or DTYPES[type_of(value).dtype].kind != "float":
        return True
    if (math.copysign(1, number) > 0) == (isinstance(op, Sub)):
        return True
    return has_no_negative_zero(value) or hides_sign_of_zero(op.operation.results[0])


@law(*ABSORBING)
def absorbing(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * 0 = 0, and so on, by the table ABSORBING; integers and booleans only."""
    number = splat(op.rhs)
    if number is None or DTYPES[(type_ := result_type(op)).dtype].kind not in ("int", "uint", "bool"):
        return None
    return full(number, type_) if number == _number(ABSORBING[op.OP_NAME], type_.dtype) else None


@law(*INVOLUTIONS)
def involution(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """-(-x) = x"""
    inner = is_named(op.x, op.OP_NAME)
    return inner.x if inner is not None else None


@law(*IDEMPOTENT)
def idempotent(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """floor(ceil(x)) = ceil(x), and so on, by the table IDEMPOTENT."""
    return op.x if is_named(op.x, *IDEMPOTENT[op.OP_NAME]) is not None else None


@law(*EVEN)
def even(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """|-x| = |x|; not without a sign, where -x wraps"""
    inner = is_named(op.x, "neg")
    return type(op).build(inner.x) if inner is not None and DTYPES[type_of(op.x).dtype].kind != "uint" else None


@law(*SAME)
def same_operands(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """min(x, x) = x"""
    return op.lhs if op.lhs == op.rhs else None


@law("sub", "xor")
def self_inverse(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x - x = 0; integers only (infinity minus itself is NaN)."""
    if op.lhs != op.rhs:
        return None
    type_ = result_type(op)
    return full(0, type_) if DTYPES[type_.dtype].kind in ("int", "uint", "bool") else None


@law("add", "sub")
def signs(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x + (-y) = x - y; x - (-y) = x + y; (-x) + y = y - x"""
    right = is_named(op.rhs, "neg")
    if right is not None and not rewriter.constant(op.rhs):
        return ops.sub(op.lhs, right.x) if isinstance(op, Add) else ops.add(op.lhs, right.x)
    left = is_named(op.lhs, "neg")
    return ops.sub(op.rhs, left.x) if left is not None and isinstance(op, Add) else None


@law("mul", "div")
def negated_factors(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(-x) * (-y) = x * y; not for an integer division, as the least integer has no negative"""
    left, right = is_named(op.lhs, "neg"), is_named(op.rhs, "neg")
    if isinstance(op, Div) and DTYPES[result_type(op).dtype].kind != "float":
        return None
    return type(op).build(left.x, right.x) if left is not None and right is not None else None
