"""Laws of `select` with a known or repeated operand, and of inverted comparisons."""

from __future__ import annotations

import operator

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Eq, Ne
from burn.dialect.query import is_named, result_type, same_number, splat, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, fit, law
from burn.passes.constants import full

INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
"""not (a < b) is a >= b except for floats, where NaN compares false; equality also inverts for floats."""

COMPARE = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "ge": operator.ge, "gt": operator.gt, "le": operator.le,
}  # fmt: skip

REFLEXIVE = {"eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False}
"""x op x, except for floats."""


@law("select")
def same_branches(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """select(c, x, x) = x"""
    a, b = splat(op.on_true), splat(op.on_false)
    same = op.on_true == op.on_false or (a is not None and b is not None and same_number(a, b))
    return fit(op.on_true, result_type(op)) if same else None


@law("select")
def known_condition(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """select(true, a, b) = a; select(false, a, b) = b"""
    number = splat(op.condition)
    return None if number is None else fit(op.on_true if number else op.on_false, result_type(op))


@law("select")
def inverted_condition(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """select(not c, a, b) = select(c, b, a)"""
    inner = is_named(op.condition, "not")
    return ops.select(inner.x, op.on_false, op.on_true) if inner is not None else None


@law("select")
def select_of_booleans(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """select(c, true, false) = c; select(c, false, true) = not c"""
    if result_type(op).dtype != "bool":
        return None
    a, b = splat(op.on_true), splat(op.on_false)
    if a is None or b is None or a == b or type_of(op.condition).shape != result_type(op).shape:
        return None
    return op.condition if a else ops.not_(op.condition)


@law("not")
def not_of_comparison(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """not (a < b) = a >= b, and so on, by the table INVERSE"""
    inner = is_named(op.x, *INVERSE)
    if inner is None or not used_once(op.x):
        return None
    if DTYPES[type_of(inner.lhs).dtype].kind == "float" and not isinstance(inner, Eq | Ne):
        return None
    return getattr(ops, INVERSE[inner.OP_NAME])(inner.lhs, inner.rhs)


@law(*REFLEXIVE)
def compare_with_itself(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x == x is true; not for floats, where NaN differs from itself"""
    if op.lhs != op.rhs or DTYPES[type_of(op.lhs).dtype].kind not in ("int", "uint", "bool"):
        return None
    return full(REFLEXIVE[op.OP_NAME], result_type(op))


@law(*INVERSE)
def compare_numbers(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """a < b for two numbers is true or false; the same for the other comparisons"""
    a, b = splat(op.lhs), splat(op.rhs)
    return None if a is None or b is None else full(COMPARE[op.OP_NAME](a, b), result_type(op))


@law(*INVERSE)
def compare_chosen(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """select(c, a, b) == n for numbers a, b and n is c, not c, true or false; the same for the other comparisons"""
    choice, number = is_named(op.lhs, "select"), splat(op.rhs)
    if choice is None or number is None or type_of(op.lhs).shape != result_type(op).shape:
        return None
    ends = splat(choice.on_true), splat(choice.on_false)
    if ends[0] is None or ends[1] is None:
        return None
    first, second = (bool(COMPARE[op.OP_NAME](end, number)) for end in ends)
    if first == second:
        return full(first, result_type(op))
    return fit(choice.condition if first else ops.not_(choice.condition), result_type(op))


@law("isnan", "isinf")
def never(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A number converted from an integer or bool is neither NaN nor infinite (float16 overflows)."""
    inner = is_named(op.x, "cast")
    kinds = ("int", "uint", "bool")
    if inner is None or DTYPES[type_of(inner.x).dtype].kind not in kinds or type_of(op.x).dtype == "float16":
        return None
    return full(False, result_type(op))
