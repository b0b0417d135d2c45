"""Prints loop kernels that rank the iterations of a block, and those that count them by digits.

A program sorts pairs of a key and a position by digits of four bits, and then takes the positions in this order. Neighbouring
threads thus store elements whose ranks are adjacent. Words count four digits each. `tl.sort` takes three times as many
instructions, and longer to compile. Counts of smaller digits are the sums of a histogram. `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton.code import Axis
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.loops import LoopBlock
from burn.codegen.triton.heuristics.ranks import warps
from burn.codegen.triton.loops import Loops
from burn.codegen.triton.printed import Printed
from burn.dialect.dims import Dim, Expr, ceildiv
from burn.kernels.body import Apply, Convert, Index, LoopKernel, Reduction, Scalar, loop_atoms, own_dims, walk


def emit(
    kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], processors: int
) -> Printed | None:
    """Like `loops.emit`; None for kernels of other kinds."""
    if rank_of(kernel) is not None:
        return _Ranks(kernel, values, sizes, sites, processors).print()
    if counted(kernel) is not None:
        return _Counts(kernel, values, sizes, sites, processors).print()
    return None


def rank_of(kernel: LoopKernel) -> Reduction | None:
    """The rank of a kernel's iterations in a block."""
    return next((r for stage in kernel.stages for r in stage.reductions if r.kind == "rank"), None)


def counted(kernel: LoopKernel) -> Scalar | None:
    """The digit of an iteration, if a kernel counts those with smaller digits, for every digit."""
    if kernel.stages or len(kernel.column_reductions) != 1:
        return None
    reduced = kernel.column_reductions[0]
    if len(reduced.loops) != 1 or reduced.reduction.kind != "sum":
        return None
    than = reduced.loops[0]
    match reduced.reduction.body:
        case Convert(arg=Apply(function="lt", args=(digit, Convert(arg=Index(dim=dim))))) if dim == Expr.of(than):
            mine = any(than in loop_atoms(d) for node in walk(digit) for d in own_dims(node))
            return None if mine or digit.dtype != "int32" else digit
    return None


class _Blocks(Loops):
    """A program for each block of iterations."""

    def __init__(
        self, kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], processors: int
    ) -> None:
        super().__init__(kernel, values, sizes, sites, processors)
        size = sizes.block
        assert isinstance(size, int) and size & (size - 1) == 0
        self.size, self.wide, self.down, self.narrow = size, False, "", "[ROWS]"
        self.block = LoopBlock(size, 1, warps(size))

    def at(self, along: str, mask: str = "") -> None:
        """Binds the loops to these positions in the block."""
        printer = self.printer
        self.code.line(f"x = tl.program_id(0).to(INT) * ROWS + {along}")
        printer.axes["x"] = Axis("x", mask)
        printer.walk_flat(self.kernel.parallel, "x", frozenset("x"))


class _Ranks(_Blocks):
    """word: the type of pairs; steps: the digits of a key."""

    def __init__(
        self, kernel: LoopKernel, values: Mapping[str, Dim], sizes: LoopKernel, sites: list[str], processors: int
    ) -> None:
        rank, block = rank_of(sizes), sizes.block
        assert rank is not None and isinstance(block, int) and isinstance(rank.index, int)
        self.steps = -(-(rank.index - 1).bit_length() // 4)
        self.memory = next(n for n, buffer in enumerate(kernel.buffers) if buffer.access == "scratch")
        self.word = triton_type(kernel.buffers[self.memory].dtype)
        super().__init__(kernel, values, sizes, sites, processors)

    def print(self) -> Printed:
        printer, code, rank = self.printer, self.code, rank_of(self.kernel)
        assert rank is not None
        code.line("along = tl.arange(0, ROWS)")
        with printer.scope():
            self.at("along")
            key = printer.value(rank.body)
            code.line(f"word = ({key}).to({self.word}) * ROWS + along")
            memory = f"workspace{self.memory} + tl.program_id(0).to(INT) * (2 * ROWS)"
            code.line(f"word = sorted_words(word, {memory}, along, {self.steps}, {self.size.bit_length() - 1}, ROWS)")
        self.at("(word & (ROWS - 1)).to(tl.int32)")
        printer.reduced[rank.name] = ("along", frozenset("x"))
        for stage in self.kernel.stages:
            if rank not in stage.reductions:
                self._rows(stage)
        return self.finished(ceildiv(self.count, self.size))


class _Counts(_Blocks):
    def print(self) -> Printed:
        printer, code, digit = self.printer, self.code, counted(self.kernel)
        reduced, size = self.sizes.column_reductions[0], self.sizes.column_reductions[0].loops[0].extent
        assert digit is not None and isinstance(size, int)
        self.at("tl.arange(0, ROWS)")
        code.line(f"counts = tl.histogram({printer.value(digit)}, DIGITS)")
        address = f"b{reduced.buffer} + (tl.program_id(0).to(INT) * DIGITS + tl.arange(0, DIGITS))"
        code.line(f"tl.store({address}, tl.cumsum(counts, 0) - counts)")
        self.constants["DIGITS"] = size
        return self.finished(ceildiv(self.count, self.size))
