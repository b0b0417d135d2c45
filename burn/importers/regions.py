"""Regions of control-flow ops that are built before the op itself, because its result types depend on their results."""

from __future__ import annotations

from burn.dialect.compose import number
from burn.dialect.mlir import ir


def discard(operation: ir.Operation) -> None:
    """Takes an op out of the program without freeing it: what was noted of its values stays valid.

    Nothing in it may keep pointing at the program, which may be freed before it."""
    dummy = None
    for region in operation.regions:
        for block in region.blocks:
            with ir.InsertionPoint.at_block_begin(block):
                dummy = number(0, "int64")
    for inner in (operation, *_inside(operation)):
        for index in range(len(inner.operands)):
            inner.operands[index] = dummy
    operation.detach_from_parent()


def _inside(operation: ir.Operation) -> list[ir.Operation]:
    found = []
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                found += [op.operation, *_inside(op.operation)]
    return found


def move_regions(source: ir.Operation, target: ir.Operation) -> None:
    for old, new in zip(source.regions, target.regions, strict=True):
        old.blocks[0].append_to(new)
    source.erase()
