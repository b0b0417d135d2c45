"""Structural equality of groups, so that equal groups share one description and one printed kernel.

A network's layers repeat a few groups. Building a kernel costs many times as much as comparing two groups.
"""

from __future__ import annotations

from collections.abc import Hashable

from burn.dialect.control import Group
from burn.dialect.mlir import ir
from burn.dialect.op import REGISTRY, full_name
from burn.dialect.traits import Trait


def structural_key(group: Group) -> Hashable:
    """Equal for groups with equal kernels: their ops, attributes and types, and their def-use structure. MLIR uniques
    attributes and types, so these compare by identity."""
    block = group.operation.regions[0].blocks[0]
    numbers: dict[ir.Value, int] = {argument: i for i, argument in enumerate(block.arguments)}
    rows: list[Hashable] = [group.kind, tuple(argument.type for argument in block.arguments)]
    for each in block.operations:
        operation = each.operation
        attributes = tuple(operation.attributes.items())
        operands = tuple(numbers[operand] for operand in operation.operands)
        types = tuple(result.type for result in operation.results)
        # an out-of-range index is reported with the source node's name
        site = full_name(operation) if REGISTRY[operation.name.removeprefix("burn.")].has(Trait.INDEXED) else ""
        rows.append((operation.name, operands, attributes, types, site))
        for result in operation.results:
            numbers[result] = len(numbers)
    return tuple(rows)
