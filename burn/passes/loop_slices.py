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
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, integers, op_of
from burn.dialect.shape import DimValues
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
    block, trips = loop.operation.regions[0].blocks[0], _most(loop)
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


def _most(loop: Loop) -> Dim | None:
    """An upper bound of a loop's iterations."""
    own = set(loop.symbols)
    for result in list(loop.operation.results)[len(loop.args[2]) :]:
        length = type_of(result).shape[0]
        if str(length) not in own:
            return length
    return None if loop.trips is None else _constant(loop.trips)


def _start(index: ir.Value, counter: ir.Value, trips: Dim, size: Dim, iteration: Dim) -> Dim | None:
    """The element of an axis that an index names in an iteration, if it is the counter plus a number, or a number minus the
    counter. It is never beyond the axis. Bounds that always hold are part of it: checks and 64-bit indices are left out."""
    found = _linear(index, counter)
    if found is None or found[0] == 0:
        return None
    rises, offset = found[0] > 0, found[1]
    if rises and non_negative(offset) and at_most(trips + offset, size):
        return dim_min(iteration + offset, size - 1)
    if not rises and at_most(offset + 1, size) and at_most(trips, offset + 1):
        return dim_max(offset - iteration, 0)
    return None


def _linear(index: ir.Value, counter: ir.Value) -> tuple[int, Dim] | None:
    """The factor, 1, 0 or -1, of the counter in an index, and the number added to it."""
    if index == counter:
        return 1, 0
    if (number := _constant(index)) is not None:
        return 0, number
    op = op_of(index)
    if op is None or op.OP_NAME not in ("add", "sub"):
        return None
    lhs, rhs = _linear(op.lhs, counter), _linear(op.rhs, counter)
    if lhs is None or rhs is None:
        return None
    sign = 1 if op.OP_NAME == "add" else -1
    factor = lhs[0] + sign * rhs[0]
    return (factor, lhs[1] + rhs[1] * sign) if abs(factor) <= 1 else None


def _constant(value: ir.Value) -> Dim | None:
    """A scalar that is a number or a size."""
    op: Op | None = op_of(value)
    if isinstance(op, DimValues):
        return op.dims[0] if len(op.dims) == 1 else None
    numbers = integers(value)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None
