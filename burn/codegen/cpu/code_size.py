"""Programs that run for only a moment, and very long ones, for which compile time decides.

A run that touches a few kilobytes takes less time than the call that starts it. Such a program gets size-optimised code, because
LLVM's unrolled loops and copies take a fifth of a small program's compilation. LLVM's IR passes are left out as well
(`host/object.py`). A very long program keeps the passes; its launches become a table (`host/steps.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from burn.codegen.cpu.heuristics.programs import LONG, SHORT_WORK
from burn.codegen.host.groups import flops
from burn.dialect.control import Group, Loop
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import type_of


def runs_briefly(program: Program) -> bool:
    """True if a whole run is little work for any inputs."""
    work = 0
    for op in _ops(program.block):
        if isinstance(op, Loop):
            return False
        if isinstance(op, Group):
            dims = (flops(op.ops), *(type_of(v).bytes for v in (*op.operation.operands, *op.operation.results)))
            for dim in dims:
                if not isinstance(dim, int):
                    return False
                work += dim
    return work <= SHORT_WORK


def is_long(program: Program) -> bool:
    """True if a program has so many launches that a table (`host/steps.py`) is better than code."""
    found = (operation for block in blocks(program.block) for operation in block.operations)
    return sum(operation.operation.name == "burn.group" for operation in found) >= LONG


def _ops(block: ir.Block) -> Iterator[Op]:
    """The ops of a block and of its branches, without those in groups."""
    for operation in block.operations:
        op = operation.opview
        if isinstance(op, Op):
            yield op
            if not isinstance(op, Group):
                for region in op.operation.regions:
                    for inner in region.blocks:
                        yield from _ops(inner)
