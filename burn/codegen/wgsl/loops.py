"""Prints loop kernels. `emit` is the entry point.

Either an invocation computes an iteration of the parallel loops, or a workgroup does: its lanes then share each stage's loops and
combine reductions through workgroup memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.heuristics import LANES, is_unrolled
from burn.codegen.wgsl.printed import Printed, opened
from burn.codegen.wgsl.reductions import Total
from burn.dialect.dims import Dim, LoopVar, ceildiv, estimate, product
from burn.kernels.body import Load, LoopKernel, Stage, walk


def emit(kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], shared: bool) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. shared: True if a workgroup, not an
    invocation, computes an iteration."""
    if kernel.column_reductions:
        raise Unprintable("WGSL kernels have no column reductions")
    return _Loops(kernel, values, sizes, sites, shared).print()


class _Loops:
    def __init__(
        self, kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], shared: bool
    ) -> None:
        self.kernel, self.sizes = kernel, sizes
        self.count = product([v.extent for v in sizes.parallel])
        self.shared = shared
        self.opened = opened(kernel, values, sizes, sites, self.count)
        self.printer, self.code = self.opened.printer, self.opened.printer.code
        self.memory: dict[str, None] = {}  # in order

    def print(self) -> Printed:
        code = self.code
        if self.shared:
            self._iteration("program")
            return self.opened.closed(self._about("workgroup"), self.count, LANES, tuple(self.memory))
        code.line(f"let x = program * {LANES} + lane;")
        count = self.opened.count(self.kernel.parallel, self.sizes.parallel)
        with code.block(f"if (u32(x) < u32({count}))"):  # x may pass 2^31
            self._iteration("x")
        return self.opened.closed(self._about("invocation"), ceildiv(self.count, LANES), LANES)

    def _about(self, who: str) -> str:
        kinds = [r.kind for s in self.kernel.stages for r in s.reductions]
        return f"An iteration for each {who}{': ' if kinds else ''}{', '.join(kinds)}."

    def _iteration(self, flat: str) -> None:
        kernel, printer, code = self.kernel, self.printer, self.code
        printer.walk_flat(kernel.parallel, flat)
        for number, buffer in enumerate(kernel.buffers):
            if buffer.access == "scratch":
                printer.private[number] = code.let(f"{flat} * {printer.dim(buffer.elements)}", "own")
        written: set[int] = set()
        for stage in kernel.stages:
            read = {n.buffer for n in walk(*stage.scalars) if isinstance(n, Load)}
            if read & written:
                if self.shared:
                    code.line("storageBarrier();")
                printer.forget()
            self._stage(stage)
            written |= {w.buffer for w in stage.writes}

    def _stage(self, stage: Stage) -> None:
        if stage.order != "parallel":
            if self.shared:
                with self.code.block("if (lane == 0)"), self.printer.scope():
                    self._in_order(stage)
            else:
                with self.printer.scope():
                    self._in_order(stage)
        elif stage.loops:
            self._parallel(stage)
        else:
            self._single(stage)

    def _single(self, stage: Stage) -> None:
        """A stage without loops: a reduction of one element is that element. All lanes compute it, and the first one writes."""
        printer, code = self.printer, self.code
        for r in stage.reductions:
            arg = r.kind.startswith("arg")
            printer.reduced[r.name] = (
                code.let(f"long_of_i32({printer.dim(r.index)})", "r") if arg else printer.value(r.body)
            )
        if not stage.writes:
            return
        if not self.shared:
            self._writes(stage)
            return
        with code.block("if (lane == 0)"), printer.scope():
            self._writes(stage)

    def _writes(self, stage: Stage) -> None:
        """All values are computed before the first is written, as the stage's writes do not depend on each other."""
        for write in stage.writes:
            self.printer.value(write.value)
        for write in stage.writes:
            self.printer.store(write)

    def _parallel(self, stage: Stage) -> None:
        """Iterations in any order: the lanes take turns if a workgroup shares them."""
        printer, code = self.printer, self.code
        totals = [Total(code, r) for r in stage.reductions]
        if not self.shared and is_unrolled(stage):
            for indices in itertools.product(*(range(estimate(loop.extent)) for loop in stage.loops)):
                with printer.scope():
                    for loop, index in zip(stage.loops, indices, strict=True):
                        # a variable: of literals, an index below 0 would be a constant expression, which is an error
                        printer.put(loop, code.let(str(index), "k"))
                    self._take(totals)
        else:
            number = next(i for i, each in enumerate(self.kernel.stages) if each is stage)
            length = self.opened.count(stage.loops, self.sizes.stages[number].loops)
            start, step = ("lane", LANES) if self.shared else ("0", 1)
            r = code.fresh("at")
            with code.block(f"for (var {r} = {start}; u32({r}) < u32({length}); {r} = {r} + {step})"), printer.scope():
                printer.walk_flat(stage.loops, r)
                self._take(totals)
                self._writes(stage)
        for total in totals:
            if self.shared:
                self.memory.update(dict.fromkeys(total.shared))
                total.across()
            printer.reduced[total.reduction.name] = total.result

    def _take(self, totals: list[Total]) -> None:
        """An iteration's part of each reduction."""
        for total in totals:
            total.take(self.printer.value(total.reduction.body), self.printer.dim(total.reduction.index))

    def _in_order(self, stage: Stage) -> None:
        """Iterations one after another, in which a load sees the writes of earlier ones."""
        printer, code = self.printer, self.code
        totals = [Total(code, r) for r in stage.reductions]
        heads: list[tuple[str, LoopVar]] = []
        for loop in stage.loops:
            index = code.fresh("at")
            printer.put(loop, index)
            heads.append((index, loop))
        self._nested(heads, stage, totals)
        for total in totals:
            printer.reduced[total.reduction.name] = total.result

    def _nested(self, heads: list[tuple[str, LoopVar]], stage: Stage, totals: list[Total]) -> None:
        printer, code = self.printer, self.code
        if heads:
            (index, loop), rest = heads[0], heads[1:]
            extent = printer.dim(loop.extent)
            with code.block(f"for (var {index} = 0; {index} < {extent}; {index} = {index} + 1)"), printer.scope():
                self._nested(rest, stage, totals)
            return
        self._take(totals)
        for write in stage.writes:
            printer.store(write)
            printer.forget()
