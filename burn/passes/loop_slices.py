"""Slices of a tensor that the iterations of a loop read one by one: their index becomes a size.

A recurrent layer gathers its input of a step by the loop's counter. As a tensor the counter is an element of memory. The host
writes it before each iteration, and so the work of a GPU could not be recorded. As a size it is a number in the entry function,
and an argument of kernels. The slice is also a view, which a kernel reads without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.compose import part, reshape
from burn.dialect.control import Loop
from burn.dialect.dims import Dim, at_most, dim_max, dim_min, non_negative, symbol
from burn.dialect.indexing import Gather
from burn.dialect.loops import body, linear, most_iterations
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead
from burn.dialect.types import type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class LoopSlices:
    """For loops whose number of iterations is known to be within the axis that they read."""

    name: ClassVar[str] = "loop_slices"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        count = 0
        with context():
            loops = [op for block in blocks(program.block) for op in block.operations if isinstance(op, Loop)]
            for number, loop in enumerate(loops):
                count += _rewritten(loop, f"iteration_{number}")
            if count:
                erase_dead(program.block)
        return {"slices": count}


def _rewritten(loop: Loop, name: str) -> int:
    """Replaces the gathers of a loop's body that read at its counter; returns how many."""
    block, trips = body(loop), most_iterations(loop)
    if trips is None:
        return 0
    counter, found = block.arguments[0], 0
    for operation in list(block.operations):
        op = operation.opview
        if not isinstance(op, Gather) or type_of(op.indices).rank:
            continue
        axis = op.axis % type_of(op.x).rank
        start = _start(op.indices, counter, trips, type_of(op.x).shape[axis], symbol(name))
        if start is None:
            continue
        if not found:
            with loop.operation.location, ir.InsertionPoint.at_block_begin(block):
                ops.read_dim(counter, symbol=name)
        found += 1
        result = op.operation.results[0]
        with op.operation.location, ir.InsertionPoint(op.operation):
            made = reshape(part(op.x, axis, start, 1), type_of(result).shape)
        result.replace_all_uses_with(made)
        op.operation.erase()
    return found


def _start(index: ir.Value, counter: ir.Value, trips: Dim, size: Dim, iteration: Dim) -> Dim | None:
    """The element of an axis that an index names in an iteration, if it is the counter plus a number, or a number minus the
    counter. It is never beyond the axis. Bounds that always hold are part of it: checks and 64-bit indices are left out."""
    found = linear(index, counter)
    if found is None or found[0] == 0:
        return None
    rises, offset = found[0] > 0, found[1]
    if rises and non_negative(offset) and at_most(trips + offset, size):
        return dim_min(iteration + offset, size - 1)
    if not rises and at_most(offset + 1, size) and at_most(trips, offset + 1):
        return dim_max(offset - iteration, 0)
    return None
