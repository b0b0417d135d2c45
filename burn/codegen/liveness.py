"""How long each buffer of a program lives, in steps of the order in which ops run.

A value's *roots* are the buffers it may stand for: its own, its operand's for a reshape, either branch's for the result of an
`if`. Loop bodies run many times: what they read from outside lives until the loop ends.
"""

from __future__ import annotations

from burn.codegen.lower import op_of
from burn.dialect.control import defined_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op

NO_BUFFER = ("weight", "constant")
ALIASES = ("reshape",)


class Liveness:
    """Numbers every op of a block and of the regions in it, groups' bodies left out."""

    def __init__(self, block: ir.Block) -> None:
        self.buffers: list[ir.Value] = []  # values that need memory of their own, in order of definition
        self.operations: list[ir.Operation] = []
        self.symbols: set[str] = set()
        self._first: dict[ir.Value, int] = {}
        self._last: dict[ir.Value, int] = {}
        self._roots: dict[ir.Value, list[ir.Value]] = {}
        self._depth: dict[ir.Value, int] = {}
        self._step = 0
        self._block(block, 0)
        for value in list(list(block.operations)[-1].operands):
            self._touch(value, self._step)

    def roots(self, value: ir.Value) -> list[ir.Value]:
        return self._roots.get(value, [value])

    def range(self, value: ir.Value) -> tuple[int, int]:
        return self._first[value], self._last[value]

    def top_level(self, root: ir.Value) -> bool:
        """Whether the buffer belongs to an op directly in the program's block."""
        return self._depth.get(root) == 0

    def _touch(self, value: ir.Value, step: int) -> None:
        for root in self.roots(value):
            if root in self._last:
                self._last[root] = max(self._last[root], step)

    def _block(self, block: ir.Block, depth: int) -> set[ir.Value]:
        """Returns every value used inside."""
        used: set[ir.Value] = set()
        for operation in block.operations:
            op = operation.opview
            if not isinstance(op, Op):
                continue
            self._step += 1
            self.operations.append(operation.operation)
            self.symbols |= defined_symbols(op)
            operands = list(op.operation.operands)
            used.update(operands)
            for operand in operands:
                self._touch(operand, self._step)
            if op.OP_NAME in ("if", "loop"):
                inner: set[ir.Value] = set()
                for region in op.operation.regions:
                    inner |= self._block(region.blocks[0], depth + 1)
                self._step += 1
                if op.OP_NAME == "loop":
                    for value in inner:
                        self._touch(value, self._step)
                used |= inner
            self._results(op, depth)
        return used

    def _results(self, op: Op, depth: int) -> None:
        results = list(op.operation.results)
        if op.OP_NAME in NO_BUFFER:
            return
        if op.OP_NAME in ALIASES:
            self._roots[results[0]] = self.roots(op.operation.operands[0])
            return
        if op.OP_NAME == "if":
            for i, result in enumerate(results):
                roots: list[ir.Value] = []
                for region in op.operation.regions:
                    roots += self.roots(list(list(region.blocks[0].operations)[-1].operands)[i])
                self._roots[result] = roots if len(set(roots)) > 1 else [result, *roots]
            return
        for result in results:
            self._first[result] = self._last[result] = self._step
            self._depth[result] = depth
            if op.OP_NAME != "loop":
                self.buffers.append(result)


def is_alias(value: ir.Value) -> bool:
    op = op_of(value)
    return op is not None and op.OP_NAME in ALIASES
