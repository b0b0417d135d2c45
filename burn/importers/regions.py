"""Regions of control-flow ops that are built before the op itself, because its result types depend on their results."""

from __future__ import annotations

from burn.dialect.compose import disconnect
from burn.dialect.mlir import ir


def discard(operation: ir.Operation) -> None:
    """Takes an op out of the program without freeing it: what was noted of its values stays valid."""
    disconnect(operation)
    operation.detach_from_parent()


def move_regions(source: ir.Operation, target: ir.Operation) -> None:
    for old, new in zip(source.regions, target.regions, strict=True):
        old.blocks[0].append_to(new)
    source.erase()
