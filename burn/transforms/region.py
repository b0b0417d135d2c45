"""A function of one example's values, of all examples. Enter at `batched`.

The function's ops are built in a region, and batched from there into the program. The region stays alive with the tensors and
backward functions that hold its values, but uses no value of the program any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.batching.rules import Item
from burn.dialect.batching.walk import Walk
from burn.dialect.compose import number
from burn.dialect.control import Loop
from burn.dialect.copies import Copies, seen_now
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.tensors.gradients import registered
from burn.tensors.tracer import nested
from burn.transforms.program import in_program, usable

One = Callable[[Sequence[Any], Copies], Sequence[Value]]
"""function(values of one example, copies): see `walk.Again`."""


def batched(
    function: One, operands: Sequence[Item], size: Dim, randomness: str = "same", earlier: Walk | None = None
) -> list[Item]:
    """The results of `function` for all of `size` examples. operands: the values that it is called with; randomness: see
    `walk.RANDOMNESS`; earlier: the walk that batched values which the function holds."""
    flags: list[bool] = []

    def build() -> list[Value]:
        given = [Item(usable(item.value), item.mapped) for item in operands]
        results = _built(function, given, size, randomness, earlier)
        flags[:] = [item.mapped for item in results]
        return [item.value for item in results]

    values = in_program(build)
    return [Item(value, mapped) for value, mapped in zip(values, flags, strict=True)]


def _built(function: One, operands: Sequence[Item], size: Dim, randomness: str, earlier: Walk | None) -> list[Item]:
    def again(inner: One, values: Sequence[Item], walk: Walk) -> list[Item]:
        return batched(inner, values, size, randomness, walk)

    customs = registered()
    before = len(customs or ())
    walk = Walk(size, randomness, customs, again)
    with context():
        holder = Loop.create(
            None, None, [], result_types=[]
        )  # in the program, so that new names of sizes differ from its own
        block = holder.regions[0].blocks.append(*[item.type.to_mlir() for item in operands])
        try:
            with nested() as tracer, ir.InsertionPoint(block):
                ops.yield_(list(function(list(block.arguments), _Held(earlier, walk, block))))
            for argument, item in zip(block.arguments, operands, strict=False):
                walk.define(argument, item)
            results = walk.block(block)
        finally:
            holder.detach_from_parent()
            _release(holder)
        tracer.holder = (holder, walk)
        if customs is not None and len(customs) > before:
            customs.kept.append(tracer.holder)
            tracer.ended = False  # backward functions may hold tensors of the region
    return results


class _Held(dict[Any, Any]):
    """Stands for values of one example that an earlier walk batched, with arguments of the region under construction."""

    def __init__(self, earlier: Walk | None, walk: Walk, block: ir.Block) -> None:
        super().__init__()
        self.earlier, self.walk, self.block, self.around = earlier, walk, block, seen_now()

    def get(self, value: Any, default: Any = None) -> Any:
        if self.earlier is None:
            return default
        item = self.earlier.item(value)
        if not item.mapped and item.value is value:
            return default
        if value not in self:
            self[value] = self._argument(item)
        return self[value]

    def _argument(self, item: Item) -> Any:
        found: Any = item.value
        for copies in self.around:
            found = copies.get(found, found)
        found = Item(usable(found), item.mapped)
        if not found.mapped:
            return found.value
        argument = self.block.add_argument(found.type.to_mlir(), ir.Location.unknown())
        self.walk.define(argument, found)
        return argument


def _release(holder: ir.Operation) -> None:
    """The region's ops use no value of the program any more. Constants are copied, as sections of the backward pass
    (`adjoint/sections.py`) may use them; other values reach a section as its operands."""
    inside: set[Any] = set()
    outside: list[tuple[ir.Operation, int]] = []

    def look(operation: ir.Operation) -> None:
        outside.extend((operation, i) for i, v in enumerate(operation.operands) if v not in inside)
        for region in operation.regions:
            for block in region.blocks:
                inside.update(block.arguments)
                for inner in block.operations:
                    look(inner.operation)
        inside.update(operation.results)

    look(holder)
    block = holder.regions[0].blocks[0]
    copies: dict[Any, ir.Value] = {}
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        dummy = number(False, "bool")
        for operation, index in outside:
            value = operation.operands[index]
            if value not in copies:
                owner = value.owner
                constant = isinstance(owner, Op) and owner.PURE and not len(owner.operation.operands)
                copies[value] = owner.operation.clone().results[value.result_number] if constant else dummy
            operation.operands[index] = copies[value]
