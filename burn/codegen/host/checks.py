"""Conditions on sizes (`burn.check_size`), compared in the entry function; a violated one aborts the run.

Conditions on input sizes are checked first, before memory is planned with invalid sizes. Others are checked in program
order, because their sizes are read from data or they belong to a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.codegen.host.emitters import emits
from burn.dialect.op import Agreement, Op
from burn.dialect.shape import CheckSize
from burn.runtime.abi import Status

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder

_WRONG = {"==": "ne", "!=": "eq", "<=": "sgt", "<": "sge", ">=": "slt", ">": "sle"}
"""The negated relations as predicates of arith.cmpi."""


def of_inputs(entry: EntryBuilder) -> None:
    """Checks the conditions that depend only on input sizes."""
    for operation in entry.program.block.operations:
        op = operation.opview
        if isinstance(op, CheckSize) and entry.sizes.known(op.size, op.bound):
            _compare(entry, op)


@emits("check_size")
def _check_size(entry: EntryBuilder, op: Op) -> None:
    _compare(entry, op)


def _compare(entry: EntryBuilder, op: Op) -> None:
    code, need = entry.code, Agreement(op.size, op.bound, op.relation)
    if need in entry.checked:
        return
    if code.at_top:
        entry.checked.add(need)
    size, bound = (entry.sizes.value(d) for d in (op.size, op.bound))
    entry.settle()
    condition = f"{op.size} {op.relation} {op.bound}" + (f" ({op.says})" if op.says else "")
    entry.fail_if(code.cmp(_WRONG[op.relation], size, bound), Status.CHECK_FAILED, condition, size)
