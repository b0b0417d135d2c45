"""Prints cumulative reductions (cumsum, cumprod, ...): an iteration reads the previous one's result from a register.

Rows of a scan along the contiguous axis are independent, but an element waits for the addition before it. Several rows are
scanned together: blocks of as many elements as rows are loaded, transposed in registers, combined row by row as vectors, and
transposed back. Each element is the result of the same operations in the same order as in a loop over its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.shuffles import transposed
from burn.codegen.host.emit import Function, Int, Value, vector
from burn.dialect.dims import Dim, Expr, LoopVar, coefficient, substitute
from burn.kernels.body import Fetched, Load, LoopKernel, Scalar, Stage, Where, Write, loop_atoms, walk


@dataclass(frozen=True)
class Rows:
    """How rows are scanned together: `row` is the loop over them. even, whole: the number of rows, or of a row's elements, is a
    multiple of the lanes."""

    row: str
    even: bool
    whole: bool


@dataclass(frozen=True)
class Scan:
    """A stage that writes `first` in the first iteration of `step`, and in the others `rest`, which reads the result of the
    iteration before as `previous`."""

    step: LoopVar
    write: Write
    previous: Load
    first: Scalar
    rest: Scalar

    @staticmethod
    def of(kernel: LoopKernel) -> Scan | None:
        """The scan of a kernel that consists of one; its sizes are numbers or symbols of the program."""
        if len(kernel.stages) != 1 or kernel.column_reductions or (scan := Scan.in_form(kernel.stages[0])) is None:
            return None
        (write,) = kernel.stages[0].writes
        before = Expr.of(scan.step) - 1
        own = [n for n in walk(write.value) if isinstance(n, Load) and n.buffer == write.buffer]
        if own != [scan.previous] or scan.previous in walk(scan.first):
            return None
        assert isinstance(write.value, Where)
        carried = scan.previous.offset == substitute(write.offset, {scan.step: before})
        return scan if carried and write.value.ranges == ((before, scan.step.extent),) else None

    @staticmethod
    def in_form(stage: Stage) -> Scan | None:
        """The same for a stage whose strides are arguments, each another one, so that they cannot be compared. If the stage has
        the form of a scan, it need not be one."""
        match stage:
            case Stage(
                loops=(step,),
                reductions=(),
                writes=(Write(value=Where(ranges=((_, _),), then=rest, otherwise=first)) as write,),
                order="sequential",
            ):
                own = [n for n in walk(rest) if isinstance(n, Load) and n.buffer == write.buffer]
                return Scan(step, write, own[0], first, rest) if own else None
        return None

    def blocks(self, row: LoopVar) -> list[Load]:
        """The loads of elements that lie side by side along a row."""
        nodes = list(walk(self.first, self.rest))
        guarded = {id(n) for w in nodes if isinstance(w, Where) for n in walk(w.then, w.otherwise)}
        return [
            node
            for node in nodes
            if isinstance(node, Load)
            and node is not self.previous
            and id(node) not in guarded
            and node.dtype != "bool"
            and self.is_along(node.offset, row)
        ]

    def is_along(self, offset: Dim, row: LoopVar) -> bool:
        """True if elements at an offset lie side by side along each row, in either order."""
        if any(isinstance(a, Fetched) for a in loop_atoms(offset)) or row not in loop_atoms(offset):
            return False
        return coefficient(offset, self.step) in (1, -1)


def print_scan(scan: Scan, code: Function, emitter: ScalarEmitter) -> None:
    """The iterations of a scan one after the other, for one row or for the lanes of a vector."""
    step, extent = scan.step, emitter.dim(scan.step.extent)

    def write(value: Value) -> None:
        emitter.remember([(scan.write.value, value)])
        emitter.store(scan.write.buffer, scan.write.offset, scan.write.value)

    with code.if_(code.cmp("slt", 0, extent)), emitter.scope():
        with emitter.scope():
            emitter.bindings[step] = 0
            first = emitter.wide(scan.first)
            write(first)
        with code.for_(1, extent, 1, [first]) as loop, emitter.scope():
            emitter.bindings[step] = loop.iv
            emitter.remember([(scan.previous, loop.carried[0])])
            value = emitter.wide(scan.rest)
            write(value)
            loop.yield_(value)


def print_rows(scan: Scan, rows: Rows, row: LoopVar, lanes: int, code: Function, emitter: ScalarEmitter) -> None:
    """The block of rows of the current iteration of `row`; a single last row is scanned by itself."""
    first, extent = code.mul(emitter.bindings[row], lanes), emitter.dim(row.extent)
    emitter.lanes = 1
    if rows.even:
        _Block(scan, rows, row, lanes, code, emitter, first, extent).print()
        return
    with code.if_(code.cmp("eq", code.add(first, 1), extent)), emitter.scope():
        emitter.bindings[row] = first
        print_scan(scan, code, emitter)
    with code.else_(), emitter.scope():
        _Block(scan, rows, row, lanes, code, emitter, first, extent).print()


class _Block:
    """As many rows as a vector has lanes. If fewer are left, other lanes repeat the last one, whose loads precede its stores."""

    def __init__(
        self,
        scan: Scan,
        rows: Rows,
        row: LoopVar,
        lanes: int,
        code: Function,
        emitter: ScalarEmitter,
        first: Int,
        extent: Int,
    ) -> None:
        self.scan, self.rows, self.row, self.lanes = scan, rows, row, lanes
        self.code, self.emitter, self.first = code, emitter, first
        last = code.sub(extent, 1)
        self.indices = [code.add(first, n) if rows.even else code.min(code.add(first, n), last) for n in range(lanes)]
        self.mask: Value | None = None
        if not rows.even:
            left = code.splat(code.value(code.sub(extent, first)), lanes)
            self.mask = code.cmp("slt", code.lane_ids(lanes), left)
        self.loads = scan.blocks(row)
        self.type = vector(lanes, conversions.element_type(scan.write.value.dtype))

    def print(self) -> None:
        code, emitter, scan, lanes = self.code, self.emitter, self.scan, self.lanes
        emitter.lane, emitter.lanes, emitter.step = self.row, lanes, 0
        emitter.lanes_changed()
        extent = emitter.dim(scan.step.extent)
        whole = code.mul(code.udiv(extent, lanes), lanes)
        nothing = code.const(0, self.type)
        with code.for_(0, whole, lanes, [nothing]) as loop, emitter.scope():
            loop.yield_(self._elements(loop.iv, loop.carried[0]))
        if not self.rows.whole:
            with code.if_(code.cmp("slt", whole, extent)), emitter.scope():
                self._elements(whole, loop.results[0], code.sub(extent, whole))
        emitter.lane, emitter.lanes = None, 1
        emitter.lanes_changed()

    def _elements(self, start: Int, carried: Value, left: Int | None = None) -> Value:
        """Scans `lanes` elements of every row from `start` on, or the last `left`. Returns the last results."""
        code, emitter, scan, step = self.code, self.emitter, self.scan, self.scan.step
        loaded = [(load, self._columns(load, start, left)) for load in self.loads]
        results: list[Value] = []
        for number in range(self.lanes):
            with code.scope(), emitter.under(self.mask):
                emitter.bindings[self.row] = self.first
                emitter.bindings[step] = code.add(start, number)
                emitter.remember([(scan.previous, carried), *((load, columns[number]) for load, columns in loaded)])
                carried = emitter.wide(scan.rest)
                if number == 0:
                    carried = code.select(code.cmp("eq", code.value(start), 0), emitter.wide(scan.first), carried)
            results.append(carried)
        self._store(results, start, left)
        return carried

    def _columns(self, load: Load, start: Int, left: Int | None) -> list[Value]:
        """The lanes of a load for each iteration of `step` from `start` on."""
        code, emitter = self.code, self.emitter
        forward = coefficient(load.offset, self.scan.step) == 1
        mask = None if left is None else self._first(left, forward)
        if load not in walk(self.scan.first):  # it need not exist in the first iteration
            position = code.cmp("slt", code.splat(code.value(code.sub(0, start)), self.lanes), self._ids(forward))
            mask = position if mask is None else code.op("arith.andi", mask, position)
        type_ = vector(self.lanes, conversions.element_type(load.dtype))
        found: list[Value] = []
        for index in self.indices:
            with emitter.scope():
                emitter.bindings[self.row] = index
                emitter.bindings[self.scan.step] = start if forward else code.add(start, self.lanes - 1)
                found.append(code.load(emitter.pointers[load.buffer], emitter.dim(load.offset), type_, mask))
        columns = transposed(code, found)
        return columns if forward else columns[::-1]

    def _store(self, results: Sequence[Value], start: Int, left: Int | None) -> None:
        code, emitter, write = self.code, self.emitter, self.scan.write
        forward = coefficient(write.offset, self.scan.step) == 1
        mask = None if left is None else self._first(left, forward)
        values = transposed(code, list(results if forward else results[::-1]))
        for index, value in zip(self.indices, values, strict=True):
            with emitter.scope():
                emitter.bindings[self.row] = index
                emitter.bindings[self.scan.step] = start if forward else code.add(start, self.lanes - 1)
                code.store(value, emitter.pointers[write.buffer], emitter.dim(write.offset), mask)

    def _ids(self, forward: bool) -> Value:
        """The number of each element of a vector in the order of the scan."""
        ids = list(range(self.lanes))
        return self.code.const(str(ids if forward else ids[::-1]), f"vector<{self.lanes}xi64>")

    def _first(self, left: Int, forward: bool) -> Value:
        """A mask of the elements that come first in the order of the scan."""
        return self.code.cmp("slt", self._ids(forward), self.code.splat(self.code.value(left), self.lanes))
