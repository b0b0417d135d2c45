"""Writes the accumulators of a contraction's tile: the epilogue's expressions for every element, from registers or memory.

`Epilogue` is the entry point; all printers of contractions share it.
"""

from __future__ import annotations

from contextlib import ExitStack

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.counting import following, split
from burn.codegen.cpu.matmul.packing import bind_rows, both, panel_mask
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import Expr, LoopVar, coefficient, substitute
from burn.kernels.body import Accumulator, Load, Rewriter, Write, children, loop_atoms, own_dims, walk


class Epilogue:
    """The epilogue of a kernel whose panels are vectors of `lanes`. compact: the shortest code, however slow."""

    def __init__(self, kernel: Tiled, lanes: int, element: str, emitter: ScalarEmitter, compact: bool = False) -> None:
        self.kernel, self.lanes, self.element, self.compact = kernel, lanes, element, compact
        self.type = vector(lanes, element)
        self.code, self.emitter = emitter.code, emitter
        self.vectors = kernel.width // lanes

    def fetch(self, rows: list[Int]) -> None:
        """Prefetches the epilogue's operands and results: rows are strided, which hardware prefetchers miss."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        lane = LoopVar("lane", self.lanes)
        loads = [n for n in walk(*(w.value for w in kernel.epilogue)) if isinstance(n, Load)]
        accesses = {(w.buffer, w.offset): True for w in kernel.epilogue}
        accesses |= {(n.buffer, n.offset): accesses.get((n.buffer, n.offset), False) for n in loads}
        by_row = [(b, d, w) for (b, d), w in accesses.items() if set(kernel.rows) & loop_atoms(d)]
        emitter.lane, emitter.lanes = lane, self.lanes
        for c in range(self.vectors):
            column = Expr.of(kernel.panel) * kernel.width + c * self.lanes + Expr.of(lane)
            for row in rows:
                with emitter.scope(), code.scope():
                    bind_rows(emitter, kernel.rows, row)
                    emitter.bindings[lane] = 0
                    for buffer, offset, write in by_row:
                        offset = substitute(offset, {kernel.column: column})
                        if emitter.stride(offset) == 1:
                            element = conversions.element_type(kernel.buffers[buffer].dtype)
                            at = emitter.dim(substitute(offset, {lane: 0}))
                            code.prefetch(emitter.pointers[buffer], at, element, write)
        emitter.lane, emitter.lanes = None, 1

    def written(
        self,
        rows: list[Int],
        sums: list[Value],
        exists: list[Value] | None,
        only: Value | None = None,
        masked: bool = True,
    ) -> None:
        """Writes accumulators from registers. For every vector of columns, first computes the values that do not depend on
        the row, then writes row by row, under the mask `only`. Without `masked` the panel has all its columns."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        lane = LoopVar("lane", self.lanes)
        for c in range(self.vectors):
            column = Expr.of(kernel.panel) * kernel.width + c * self.lanes + Expr.of(lane)
            rewrite = Rewriter(lambda d, column=column: substitute(d, {kernel.column: column}))
            writes = [Write(w.buffer, rewrite.dim(w.offset), rewrite(w.value)) for w in kernel.epilogue]
            emitter.lane, emitter.lanes = lane, self.lanes
            emitter.bindings[lane] = 0
            mask = panel_mask(emitter, kernel, c, self.lanes) if masked else None
            with emitter.under(both(code, mask, only)):
                self._hoist(writes)
                for r, row in enumerate(rows):
                    if exists is None:
                        with emitter.scope():
                            self._write_row(writes, row, sums[r * self.vectors + c])
                    else:
                        with code.if_(exists[r]), emitter.scope():
                            self._write_row(writes, row, sums[r * self.vectors + c])
            emitter.lanes_changed()
            emitter.lane = None
        emitter.lanes = 1

    def rolled(self, first: Int, left: Int, kept: Value) -> None:
        """Writes `left` rows of accumulators from memory, starting at row `first`, in loops over two or three vectors
        at a time, so that long dependence chains overlap. Size-optimised code uses one vector, or one element if lanes
        are strided."""
        code, emitter, kernel = self.code, self.emitter, self.kernel
        lanes = 1 if self.compact and self._scatters() else self.lanes
        count = kernel.width // lanes
        lane, which = LoopVar("lane", lanes), LoopVar("vector", count)
        together = 1 if self.compact else next(n for n in (2, 3, 1) if count % n == 0)
        with code.for_(0, count, together) as vectors, emitter.scope(), ExitStack() as masks:
            emitter.bindings[which], emitter.bindings[lane] = vectors.iv, 0
            emitter.lane, emitter.lanes = lane, lanes
            each: list[tuple[list[Write], Value | None]] = []
            for number in range(together):
                column = Expr.of(kernel.panel) * kernel.width + (Expr.of(which) + number) * lanes + Expr.of(lane)
                rewrite = Rewriter(lambda d, column=column: substitute(d, {kernel.column: column}))
                writes = [Write(w.buffer, rewrite.dim(w.offset), rewrite(w.value)) for w in kernel.epilogue]
                mask = panel_mask(emitter, kernel, code.add(vectors.iv, number), lanes)
                masks.enter_context(emitter.under(mask))
                self._hoist(writes)
                each.append((writes, mask))
            sizes = [emitter.dim(loop.extent) for loop in kernel.rows]
            with code.for_(0, left, 1, split(code, first, sizes)) as rows, emitter.scope():
                rows.yield_(*following(code, rows.carried, sizes))
                row = code.add(first, rows.iv)
                emitter.rows = {row: rows.carried}
                at = code.mul(code.add(code.mul(rows.iv, count), vectors.iv), lanes)
                for number, (writes, mask) in enumerate(each):
                    emitter.mask = mask
                    with emitter.scope():
                        total = code.load(kept, code.add(at, number * lanes), vector(lanes, self.element))
                        self._write_row(writes, row, total)
            emitter.lanes_changed()
            emitter.lane, emitter.lanes = None, 1

    def _scatters(self) -> bool:
        """True if a vector's lanes are not stored contiguously."""
        return any(coefficient(w.offset, self.kernel.column) != 1 for w in self.kernel.epilogue)

    def _hoist(self, writes: list[Write]) -> None:
        """Computes the values that are the same for every row of the tile, such as a bias."""
        rows = set(self.kernel.rows)
        dependent: set[int] = set()
        for write in writes:
            for node in walk(write.value):
                mine = any(rows & loop_atoms(d) for d in own_dims(node))
                if mine or isinstance(node, Accumulator) or any(id(c) in dependent for c in children(node)):
                    dependent.add(id(node))
                else:
                    self.emitter.value(node)

    def _write_row(self, writes: list[Write], row: Int, total: Value) -> None:
        bind_rows(self.emitter, self.kernel.rows, row)
        self.emitter.accumulator = total
        for write in writes:  # a buffer that is written may also be read at the same index
            self.emitter.prepare(write.offset, write.value)
        for write in writes:
            self.emitter.store(write.buffer, write.offset, write.value)
