"""Batching of custom ops (`burn.custom_op`): by the user's rule, through the burn functions, or one example after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import ops
from burn.dialect.batching.rules import Item
from burn.dialect.compose import dim_value, number
from burn.dialect.control import Loop
from burn.dialect.custom import Custom, build
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import TensorType, type_of

if TYPE_CHECKING:
    from burn.dialect.batching.walk import Walk


def of_custom(walk: Walk, op: Op) -> list[Any]:
    """A body of burn functions is mapped only if the op's derivative is that of these functions: an op with a rule of its own
    keeps it."""
    assert isinstance(op, Custom)
    definition, operands = op.definition, list(op.operation.operands)
    items = [walk.item(value) for value in operands]
    if definition.has_batching:
        flags, values = [item.mapped for item in items], [item.value for item in items]
        types = [type_of(result) for result in op.operation.results]
        return definition.batched(walk.size, flags, values, types, op.shown)
    if "functions" in definition.bodies and not definition.has_rule:
        return walk.inline(lambda: definition.inlined(operands, op.shown))
    return _one_by_one(walk, op, items)


def _one_by_one(walk: Walk, op: Custom, items: list[Item]) -> list[Any]:
    """A loop over the examples."""
    types = [type_of(result) for result in op.operation.results]
    stacked = [type_.with_shape((walk.size, *type_.shape)) for type_ in types]
    loop = Loop.create(dim_value(walk.size), None, [], result_types=stacked, scans=len(stacked))
    arguments = [TensorType("int64", ()), TensorType("bool", ())]
    block = loop.regions[0].blocks.append(*[type_.to_mlir() for type_ in arguments])
    with ir.InsertionPoint(block):
        index = block.arguments[0]
        operands = [ops.gather(item.value, index, axis=0) if item.mapped else item.value for item in items]
        ops.yield_([number(True, "bool"), *build(op.definition, operands, op.shown)])
    return list(loop.results)
