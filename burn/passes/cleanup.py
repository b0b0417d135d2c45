"""What passes leave to be done behind them: erasing what nothing uses, merging what is computed twice."""

from __future__ import annotations

from burn.dialect.mlir import PassManager, ir
from burn.dialect.op import Op
from burn.dialect.program import Program


def blocks(block: ir.Block) -> list[ir.Block]:
    """A block and the blocks of all regions in it, outer ones first; groups are left out."""
    found = [block]
    for operation in block.operations:
        if operation.operation.name == "burn.group":
            continue
        for region in operation.operation.regions:
            for inner in region.blocks:
                found += blocks(inner)
    return found


def erase_dead(block: ir.Block) -> int:
    """Erases pure ops that nothing uses, in nested regions too; returns how many."""
    erased = 0
    for operation in reversed(list(block.operations)):
        op = operation.opview
        if isinstance(op, Op) and op.PURE and not any(any(True for _ in r.uses) for r in op.operation.results):
            op.operation.erase()
            erased += 1
            continue
        for region in operation.operation.regions:
            for inner in region.blocks:
                erased += erase_dead(inner)
    return erased


def merge_equal(program: Program) -> None:
    """Common subexpression elimination, upstream's: pure ops with equal operands and attributes become one."""
    manager = PassManager.parse("builtin.module(func.func(cse))")
    manager.enable_verifier(False)  # IRDL cannot type variadic operands: verify.py checks programs
    manager.run(program.module.operation)
