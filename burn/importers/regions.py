"""Regions of control-flow ops that are built before the op itself, because its result types depend on their results."""

from __future__ import annotations

from burn.dialect.compose import disconnect
from burn.dialect.mlir import ir


def discard(operation: ir.Operation, kept: list[ir.Operation]) -> None:
    """Takes an op out of the program, and adds it to `kept`, which lives as long as notes about the op's values.

    A detached op is freed along with its Python object, although objects of its values exist. A new op may then get its address,
    and the new op's values would equal the old ones."""
    disconnect(operation)
    operation.detach_from_parent()
    kept.append(operation)


def move_regions(source: ir.Operation, target: ir.Operation) -> None:
    for old, new in zip(source.regions, target.regions, strict=True):
        old.blocks[0].append_to(new)
    source.erase()
