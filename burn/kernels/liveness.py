"""Live ranges of a program's buffers, as steps of the order in which ops run.

A value's *home* is the value whose address it has: a reshape's operand, the initial value of a loop-carried value that
does not change, otherwise itself. Its *roots* are the buffers that this address may refer to: usually its home's own.
The result of an `if` has those of both branches, and a carried value has both of its loop's alternating buffers. Loop
bodies run many times, so values that they read from outside live until the loop ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import If, Loop, Yield, defined_symbols, yielded
from burn.dialect.dims import symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import ReadDim
from burn.dialect.traits import Trait
from burn.dialect.types import type_of


class Liveness:
    """Numbers every op of a block and of its nested regions, except the bodies of groups."""

    def __init__(self, block: ir.Block) -> None:
        self.buffers: list[ir.Value] = []  # values that need memory of their own, in order of definition
        self.operations: list[ir.Operation] = []
        self.symbols: set[str] = set()
        # values whose op writes directly to a result of the enclosing loop: number of the yielded value
        self.in_place: dict[ir.Value, int] = {}
        self._first: dict[ir.Value, int] = {}
        self._last: dict[ir.Value, int] = {}
        self._home: dict[ir.Value, ir.Value] = {}
        self._roots: dict[ir.Value, list[ir.Value]] = {}
        self._depth: dict[ir.Value, int] = {}
        self._step = 0
        for value in block.arguments:  # inputs
            self._first[value] = self._last[value] = 0
        self._block(block, 0)
        for value in list(list(block.operations)[-1].operands):
            self._touch(value, self._step)

    def home(self, value: ir.Value) -> ir.Value:
        return self._home.get(value, value)

    def roots(self, value: ir.Value) -> list[ir.Value]:
        home = self.home(value)
        return self._roots.get(home, [home])

    def range(self, value: ir.Value) -> tuple[int, int]:
        return self._first[value], self._last[value]

    def written_directly(self, results: Sequence[ir.Value]) -> dict[ir.Value, int]:
        """Buffers that are outputs, with their numbers: their ops can write directly to the caller's memory. They are
        results of top-level ops, each returned once. Ops that determine their result's size at run time are excluded:
        their result already has memory by then."""
        found: dict[ir.Value, int] = {}
        for number, value in enumerate(results):
            roots = self.roots(value)
            if len(roots) == 1 and roots[0] not in found and self.top_level(roots[0]):
                own = defined_symbols(roots[0].owner)
                if not any(symbols(d) & own for d in type_of(roots[0]).shape):
                    found[roots[0]] = number
        return found

    def reads_of(self, value: ir.Value, root: ir.Value) -> str:
        """The last read of an input relative to the op that writes a buffer: "before", "meanwhile" or "after"."""
        last, written = self._last[value], self._first[root]
        return "before" if last < written else "meanwhile" if last == written else "after"

    def top_level(self, root: ir.Value) -> bool:
        """True if the buffer belongs to an op directly in the program's block."""
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
            if isinstance(op, Loop):
                used |= self._loop(op, depth)
                continue
            if isinstance(op, If):
                for region in op.operation.regions:
                    used |= self._block(region.blocks[0], depth + 1)
                self._step += 1
            self._results(op, depth)
        return used

    def _results(self, op: Op, depth: int) -> None:
        results = list(op.operation.results)
        if op.has(Trait.STORED):
            return
        if op.has(Trait.ALIAS):
            self._home[results[0]] = self.home(op.operation.operands[0])
            return
        if isinstance(op, If):
            for i, result in enumerate(results):
                roots = [root for region in op.operation.regions for root in self.roots(yielded(region)[i])]
                self._roots[result] = [result, *roots]
            return
        for result in results:
            self._buffer(result, depth)

    def _buffer(self, value: ir.Value, depth: int) -> None:
        self._first[value] = self._last[value] = self._step
        self._depth[value] = depth
        self.buffers.append(value)

    def _loop(self, op: Loop, depth: int) -> set[ir.Value]:
        """Carried and stacked values live from before the first iteration. Returns every value used inside."""
        start = self._step
        region = op.operation.regions[0]
        results, (iteration, condition, *arguments) = list(op.operation.results), list(region.blocks[0].arguments)
        loop_results = [value for value in (iteration, condition) if is_stored(value)]
        given, unchanged = yielded(region)[1:], unchanged_values(op)
        for i, initial in enumerate(op.args[2]):
            if unchanged[i]:
                self._home[arguments[i]] = self._home[results[i]] = self.home(initial)
                continue
            self._buffer(results[i], depth)
            self._buffer(arguments[i], depth + 1)
            self._roots[results[i]] = [results[i], arguments[i]]
        for result in results[len(arguments) :]:
            self._buffer(result, depth)
        for value in loop_results:
            self._buffer(value, depth + 1)
        inside = len(self.buffers)
        used = self._block(region.blocks[0], depth + 1)
        self._step += 1
        for value in (*used, *results, *arguments, *loop_results):
            for root in self.roots(value):
                if self._first.get(root, start + 1) <= start:
                    self._last[root] = self._step
        for i, value in enumerate(given):
            root = self.home(value)
            fixed = not any(symbols(d) & set(op.symbols) for d in type_of(results[i]).shape)
            fixed = (
                fixed and type_of(root).bytes == type_of(value).bytes
            )  # a reshape's sizes are checked after it is written
            taken = (i < len(arguments) and unchanged[i]) or root in self.in_place
            if fixed and not taken and root in self.buffers[inside:] and self._written(root, depth + 1):
                self.in_place[root] = i
                self.buffers.remove(root)
        return used

    def _written(self, root: ir.Value, depth: int) -> bool:
        """True if an op at this depth can write the value to any memory that it is given."""
        op = op_of(root)
        return op is not None and op.has(Trait.WRITES_IN_PLACE) and self._depth[root] == depth


def is_stored(value: ir.Value) -> bool:
    """True if a loop's counter or condition needs memory. The counter as a size and the next condition do not."""
    return any(not isinstance(use.owner.opview, ReadDim) and not _is_next_condition(use, value) for use in value.uses)


def _is_next_condition(use: ir.OpOperand, value: ir.Value) -> bool:
    """True if a use is the first value that the loop's own body yields. Inner regions yield values in memory."""
    is_own = use.owner.operation.block == value.owner
    return is_own and isinstance(use.owner.opview, Yield) and use.operand_number == 0


def unchanged_values(op: Loop) -> list[bool]:
    """The carried values of a loop that its body yields unchanged."""
    region = op.operation.regions[0]
    given = yielded(region)[1:]
    return [given[i] == argument for i, argument in enumerate(list(region.blocks[0].arguments)[2:])]
