"""Prints loop kernels with column reductions: each program iterates over a block of rows and keeps accumulators for every
column. The next rows are loaded meanwhile. `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton.code import Axis
from burn.codegen.triton.heuristics.column_reductions import column_block
from burn.codegen.triton.loops import COMBINE, Loops
from burn.codegen.triton.printed import Printed
from burn.dialect.dims import Dim, ceildiv, product
from burn.dialect.types import DTYPES
from burn.kernels.body import ColumnReduction, Load, LoopKernel, Scalar, loop_atoms, walk


def emit(
    kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], processors: int
) -> Printed:
    """Like `loops.emit`, for a kernel with column reductions."""
    return _ColumnReductions(kernel, values, sizes, sites, processors).print()


def _scalars(kernel: LoopKernel) -> list[Scalar]:
    return [x for s in kernel.stages for x in s.scalars] + [f.reduction.body for f in kernel.column_reductions]


def _bytes_per_element(kernel: LoopKernel) -> int:
    """Bytes that are read for each element of a row."""
    along = {v for s in kernel.stages for v in s.loops}
    loads = {(n.buffer, n.offset) for n in walk(*_scalars(kernel)) if isinstance(n, Load)}
    return sum(
        DTYPES[kernel.buffers[buffer].dtype].size
        for buffer, offset in loads
        if all(not loop_atoms(offset).isdisjoint(loops) for loops in (along, kernel.parallel))
    )


class _ColumnReductions(Loops):
    def __init__(
        self, kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], processors: int
    ) -> None:
        super().__init__(kernel, values, sizes, sites, processors)
        length = product([v.extent for v in sizes.column_reductions[0].loops])
        assert isinstance(length, int)
        self.short = True
        self.block, self.loads_in_flight = column_block(length, sizes.block, _bytes_per_element(sizes))

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        code.line("program = tl.program_id(0).to(INT)")
        self.row()
        for loop in kernel.parallel:
            printer.put(loop, "", frozenset("x"))
        printer.reduced |= {r.name: ("", frozenset("x")) for s in kernel.stages for r in s.reductions}
        printer.hoist(_scalars(kernel), "x")
        totals = [code.let(self.start(f.reduction), "fold") for f in kernel.column_reductions]
        length, block, count = printer.dim(kernel.block), self.sizes.block, self.count
        rows = printer.dim(product([v.extent for v in kernel.parallel]))
        even = isinstance(block, int) and block % self.block.rows == 0
        whole = even and isinstance(block, int) and isinstance(count, int) and count % block == 0
        stop = rows if even else code.let(f"tl.minimum({rows}, (program + 1) * {length})", "stop")
        steps = f"for step in tl.range(0, {length}, ROWS, num_stages={self.loads_in_flight}):"
        with code.block(steps), printer.scope():
            code.line(f"x = program * {length} + step + tl.arange(0, ROWS){self.down}")
            printer.axes["x"] = Axis("x", "" if whole else code.let(f"x < {stop}", "inside"))
            printer.walk_flat([kernel.parallel[i] for i in self.layout.order], "x", frozenset("x"))
            self.stages()
            for reduced, total in zip(kernel.column_reductions, totals, strict=True):
                self._add(reduced, total)
        for reduced, total in zip(kernel.column_reductions, totals, strict=True):
            self._store(reduced, total)
        return self.finished(ceildiv(count, block))

    def _add(self, reduced: ColumnReduction, total: str) -> None:
        """Accumulates a step's rows; columns outside of a row are not stored."""
        reduction, inside = reduced.reduction, self.printer.axes["x"].mask
        value = self.full(self.printer.value(reduction.body))
        if inside:
            value = f"tl.where({inside}, {value}, {self.identity(reduction)})"
        self.code.line(f"{total} = {COMBINE[reduction.kind]}({total}, {value}.to({self.type(reduction)}))")

    def _store(self, reduced: ColumnReduction, total: str) -> None:
        columns = self.printer.axes["r"]
        width = self.printer.dim(product([v.extent for v in reduced.loops]))
        mask = f", mask={columns.mask}" if columns.mask else ""
        value = f"{self.reduce(reduced.reduction, total, 0)}[None, :]"
        self.code.line(f"tl.store(b{reduced.buffer} + (program * {width} + {columns.indices}), {value}{mask})")
