"""Conditions on sizes (`burn.check_size`): compared in the entry function, and the run ends where one does not hold.

Those that inputs decide come first of all, before memory is planned with sizes that may make no sense; the others stand where
the program has them, because their sizes are read from data or they belong to a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.codegen.cpu.entry import emits
from burn.dialect.dims import Symbol
from burn.dialect.op import Agreement, Op
from burn.dialect.shape import CheckSize
from burn.passes.constants import attribute_symbols

if TYPE_CHECKING:
    from burn.codegen.cpu.entry import EntryBuilder

CHECK_FAILED = 8  # burn_status in burn_rt.h
_WRONG = {"==": "ne", "!=": "eq", "<=": "sgt", "<": "sge", ">=": "slt", ">": "sle"}
"""How a relation fails, in arith.cmpi's words."""


def of_inputs(entry: EntryBuilder) -> None:
    """Checks what is known once the inputs are."""
    for operation in entry.program.block.operations:
        if isinstance(operation.opview, CheckSize) and _known(entry, operation.opview):
            _compare(entry, operation.opview)


def _known(entry: EntryBuilder, op: Op) -> bool:
    return all(Symbol(name) in entry.sizes.places for name in attribute_symbols(op))


@emits("check_size")
def _check_size(entry: EntryBuilder, op: Op) -> None:
    _compare(entry, op)


def _compare(entry: EntryBuilder, op: Op) -> None:
    code, need = entry.code, Agreement(op.size, op.bound, op.relation)
    if need in entry.checked:
        return
    if code.at_top:
        entry.checked.add(need)
    size, bound = (code.value(entry.sizes.dim(d)) for d in (op.size, op.bound))
    with code.if_(code.cmp(_WRONG[op.relation], size, bound)):
        condition = f"{op.size} {op.relation} {op.bound}" + (f" ({op.says})" if op.says else "")
        site = code.const(entry.sizes.site(condition))
        code.call("burn_rt_fail", [entry.run, code.const(CHECK_FAILED), site, size])
