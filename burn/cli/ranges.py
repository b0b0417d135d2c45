"""Limits of a model's integer inputs: an index into a table must be less than the table's length."""

from __future__ import annotations

from burn.dialect.indexing import Gather, GatherElements
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Eq
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.shape import Iota
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, type_of

CARRIED = frozenset(
    ("cast", "reshape", "transpose", "broadcast_to", "slice", "select", "add", "max", "min", "concat", "pad", "gather")
)
"""Ops through which an index is followed, when it is the operand that they carry on."""


def index_limits(program: Program) -> dict[str, int]:
    """For each input that is used as an index: the length of the shortest indexed axis."""
    with context():
        pairs = zip(program.input_names, program.inputs, strict=True)
        found = {name: _limits(value) for name, value in pairs if DTYPES[type_of(value).dtype].kind in ("int", "uint")}
    return {name: min(limits) for name, limits in found.items() if limits}


def _limits(value: ir.Value) -> set[int]:
    limits: set[int] = set()
    todo, seen = [value], {value}
    while todo:
        current = todo.pop()
        for use in current.uses:
            op = use.owner.opview
            if not isinstance(op, Op):
                continue
            limit = _chooses(op, current)
            if limit is not None:
                limits.add(limit)
            elif op.OP_NAME in CARRIED and not (isinstance(op, Gather) and op.x != current):
                fresh = [r for r in op.operation.results if r not in seen and _whole(r)]
                todo += fresh
                seen |= set(fresh)
    return limits


def _whole(value: ir.Value) -> bool:
    return DTYPES[type_of(value).dtype].kind in ("int", "uint")


def _chooses(op: Op, value: ir.Value) -> int | None:
    """The known size of the axis that an op looks the value up in, or of the count that it is compared with (one-hot)."""
    if isinstance(op, Gather | GatherElements) and op.indices == value:
        size = type_of(op.x).shape[op.axis]
        return size if isinstance(size, int) and size > 0 else None
    if isinstance(op, Eq):
        count = _behind_views(op.rhs if op.lhs == value else op.lhs)
        if count is not None and isinstance(count, Iota):
            size = count.shape[count.axis]
            return size if isinstance(size, int) and size > 1 else None
    return None


def _behind_views(value: ir.Value) -> Op | None:
    op = op_of(value)
    while op is not None and op.has(Trait.VIEW):
        op = op_of(op.x)
    return op
