"""Signs of values before they are computed, for laws that need them. Enter at `is_positive`, `has_no_negative_zero` and
`hides_sign_of_zero`.

A sum of several terms has no defined sign of zero: its order is not defined, and accumulators start at 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from burn.dialect.adjoint.marks import Barrier
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Add, Cast, Div, Mul, Select, Sqrt
from burn.dialect.query import op_of, splat
from burn.dialect.reduction import Reduce
from burn.dialect.shape import Concat
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, type_of

DEPTH = 12
"""Ops that the analysis looks through."""

POSITIVE = ("abs", "exp", "sigmoid", "softmax")
"""Functions whose results are NaN or at least 0.0, and never -0.0."""

BLIND = (
    "exp", "abs", "cos", "cosh", "sigmoid", "softmax", "log_softmax", "attention", "isnan", "isinf",
    "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip
"""Ops with equal results for 0.0 and -0.0. Contractions and sums are such ops, except for the sign of a zero sum."""


def is_positive(value: ir.Value, depth: int = DEPTH) -> bool:
    """True if each element of a float is known to be NaN or at least 0.0, and no -0.0."""
    number = splat(value)
    if number is not None:
        return math.copysign(1, number) > 0 or math.isnan(number)
    op = op_of(value)
    if op is None or depth == 0:
        return False
    if op.OP_NAME in POSITIVE:
        return True
    if isinstance(op, Mul) and op.lhs == op.rhs:
        return True
    if isinstance(op, Cast):
        source = DTYPES[type_of(op.x).dtype].kind
        return source in ("bool", "uint") or (source == "float" and is_positive(op.x, depth - 1))
    operands = _passed_on(op)
    return operands is not None and all(is_positive(each, depth - 1) for each in operands)


def _passed_on(op: Op) -> list[ir.Value] | None:
    """The operands of an op that is positive if they are; None for any other op."""
    if op.has(Trait.VIEW) or isinstance(op, Sqrt | Barrier) or (isinstance(op, Reduce) and op.kind in ("sum", "prod")):
        return [op.x]
    if isinstance(op, Add | Mul | Div):
        return [op.lhs, op.rhs]
    if isinstance(op, Select):
        return [op.on_true, op.on_false]
    return list(op.xs) if isinstance(op, Concat) else None


def has_no_negative_zero(value: ir.Value, depth: int = DEPTH, without: ir.Value | None = None) -> bool:
    """True if no element of a float is known to be -0.0. without: a value that a law replaces. Its sign counts as unknown."""
    if without is not None and value == without:
        return False
    number = splat(value)
    if number is not None:
        return number != 0 or math.copysign(1, number) > 0
    op = op_of(value)
    if op is None or depth == 0:
        return False
    if op.has(Trait.CONTRACTION):
        return True
    if op.has(Trait.VIEW) or isinstance(op, Barrier):
        return has_no_negative_zero(op.x, depth - 1, without)
    rule = RULES.get(op.OP_NAME)
    if rule is not None:
        return rule(op, lambda operand: has_no_negative_zero(operand, depth - 1, without))
    return is_positive(value, depth)


Known = Callable[[ir.Value], bool]
"""Of an operand: True if no element is known to be -0.0."""


def _any_of_sum(op: Op, known: Known) -> bool:
    """a + b is -0.0 only if both are."""
    return known(op.lhs) or known(op.rhs)


def _of_cast(op: Op, known: Known) -> bool:
    return DTYPES[type_of(op.x).dtype].kind in ("int", "uint", "bool") or known(op.x)


RULES: dict[str, Callable[[Op, Known], bool]] = {
    "add": _any_of_sum,
    "sub": lambda op, known: known(op.lhs),
    "cast": _of_cast,
    "reduce": lambda op, known: op.kind == "sum" or is_positive(op.operation.results[0]),
}


def hides_sign_of_zero(value: ir.Value, depth: int = 4, replaced: ir.Value | None = None) -> bool:
    """True if everything that reads a value gives the same for 0.0 and -0.0. replaced: the value that a law replaces, if `value`
    is a view of it; `value` itself by default."""
    if depth == 0:
        return False
    replaced = value if replaced is None else replaced
    uses = list(value.uses)
    for use in uses:
        op = use.owner.opview
        if not isinstance(op, Op):
            return False
        if op.OP_NAME in BLIND or op.has(Trait.CONTRACTION) or (isinstance(op, Reduce) and op.kind == "sum"):
            continue
        if op.has(Trait.VIEW) and hides_sign_of_zero(op.operation.results[0], depth - 1, replaced):
            continue
        other = op.operation.operands[1 - use.operand_number] if isinstance(op, Add) else None
        if other is not None and has_no_negative_zero(other, without=replaced):
            continue
        return False
    return bool(uses)
