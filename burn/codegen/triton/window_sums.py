"""Prints reductions whose results slide over the reduced elements: the gradient of a depthwise convolution's weight.

Each result is a tap: a sum over positions of an element under the window, times the position's gradient. A program keeps one
accumulator for each tap, and walks over tiles of adjacent positions, so that it loads each element once for all taps. `emit` is
the entry point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations

from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.matmul import split_count
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely
from burn.codegen.triton.heuristics.windows import MOST_TAPS, SumBlock, parts_of_sums, sum_block
from burn.codegen.triton.instances import InstancePrinter, Instances, is_nothing
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.triton.windows import bounded, contiguous, is_whole, only_reduction
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, ceildiv, estimate, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import Apply, Const, ContractionKernel, Convert, Load, LoopKernel, Scalar, Where, walk
from burn.kernels.parameters import parametrize
from burn.kernels.rewrite import as_loops
from burn.kernels.sliding import Slide, slides


@dataclass(frozen=True)
class WindowSums:
    """A kernel of sums whose body reads positions of sliding windows. tiled: the slide along which a thread takes adjacent
    positions; column: the parallel loop along which elements are contiguous, if any; depth: the reduction's loops, the
    contiguous one last; taps: the parallel loops with an accumulator for each of their iterations."""

    kernel: LoopKernel
    slides: tuple[Slide, ...]
    tiled: Slide
    column: LoopVar | None
    depth: tuple[LoopVar, ...]
    taps: tuple[LoopVar, ...]
    block: SumBlock


def window_sums_of(kernel: LoopKernel) -> WindowSums | None:
    """The sums of a kernel; None if they do not slide, or are too many for a thread's registers."""
    reduction = only_reduction(kernel)
    if reduction is None or reduction.kind != "sum" or not _is_multiplied(reduction.body):
        return None
    loops = kernel.stages[0].loops
    body, found = slides(reduction.body, loops, kernel.parallel)
    if not found:
        return None
    taps = [slide.tap for slide in found]
    kept = [v for v in kernel.parallel if v not in taps]
    fast = contiguous(kernel, (*kept, *loops))
    column = fast if fast in kept else None
    tiled = next((s for s in reversed(found) if s.moving != fast), found[-1])
    taps = [*(v for v in taps if v != tiled.tap), tiled.tap]
    counts = [v.extent for v in taps if isinstance(v.extent, int)]
    bytes_ = max((DTYPES[n.dtype].bits + 7) // 8 for n in walk(body) if isinstance(n, Load))
    block = sum_block(tiled.moving.extent, None if column is None else column.extent, counts, bytes_)
    if block is None:
        return None
    if not is_whole(tiled.moving.extent, block.tile):
        body = bounded(body, (tiled.position, tiled.moving))
    first = replace(kernel.stages[0], reductions=(replace(reduction, body=body),))
    depth = (*(v for v in loops if v not in (fast, tiled.moving)), tiled.moving)
    if fast in loops and fast != tiled.moving:
        depth = (*depth, fast)
    unrolled = tuple(taps[len(taps) - block.unrolled :])
    return WindowSums(replace(kernel, stages=(first, kernel.stages[1])), found, tiled, column, depth, unrolled, block)


def sums_of(kernel: ContractionKernel) -> WindowSums | None:
    """The sums of a contraction with a few results for each index of its batch, such as the taps of a depthwise kernel. A kernel
    that divides its depth into shares is printed in `hopper`."""
    taps = product([v.extent for v in (*kernel.rows, kernel.column)])
    if not kernel.batch or kernel.shares or not isinstance(taps, int) or not 1 < taps <= MOST_TAPS:
        return None
    return window_sums_of(as_loops(kernel))


def split_sums(
    kernel: ContractionKernel, counts: Sequence[int], hints: SizeHints = UNKNOWN, abilities: Abilities = USUAL_ABILITIES
) -> int:
    """`split_count`, also for contractions that are sums over windows."""
    sums = sums_of(kernel)
    if sums is None:
        return split_count(kernel, counts, hints, abilities)
    block = sums.block
    single = [v for v in sums.kernel.parallel if v not in sums.taps and v != sums.column]
    columns: Dim = 1 if sums.column is None else ceildiv(sums.column.extent, block.columns)
    depth = product([likely(v.extent, hints) for v in sums.depth])
    programs = estimate(columns * product([likely(v.extent, hints) for v in single]))
    return parts_of_sums(block, programs, estimate(depth) // block.tile, counts, abilities.processors)


def _is_multiplied(body: Scalar) -> bool:
    """True for a multiplication of loaded elements, which gives zero where loads are masked."""
    match body:
        case Apply(function="mul", args=args):
            return any(_is_loaded(arg) for arg in args)
    return False


def _is_loaded(node: Scalar) -> bool:
    match node:
        case Load():
            return True
        case Convert(arg=arg):
            return _is_loaded(arg)
        case Where(then=then, otherwise=Const(value=value)):
            return value == 0 and _is_loaded(then)
    return False


def emit(sums: WindowSums, sites: list[str]) -> Printed:
    """The function of a kernel of such sums."""
    return _Printer(sums, sites).print()


class _Printer:
    def __init__(self, sums: WindowSums, sites: list[str]) -> None:
        self.sums, self.block = sums, sums.block
        self.kernel, self.values = parametrize(sums.kernel)
        self.printer = opened(self.kernel.buffers, sites, InstancePrinter)
        self.code = self.printer.code
        self.instances = Instances()
        known = (*sums.kernel.parallel, *sums.kernel.stages[0].loops)
        general = (*self.kernel.parallel, *self.kernel.stages[0].loops)
        self.loops = dict(zip(known, general, strict=True))
        self.reduction = self.kernel.stages[0].reductions[0]
        self.down, self.right = ("[:, None]", "[None, :]") if sums.column is not None else ("", "")

    def print(self) -> Printed:
        sums, code, printer, block = self.sums, self.code, self.printer, self.block
        programs = self._program()
        counts = [v.extent for v in sums.taps if isinstance(v.extent, int)]
        self.taps = [
            dict(zip(map(self.loops.__getitem__, sums.taps), index, strict=True))
            for index in combinations(*map(range, counts))
        ]
        shape = "[ROWS, COLUMNS]" if sums.column is not None else "[ROWS]"
        kind = triton_type(self.reduction.dtype)
        self.totals = [code.let(f"tl.full({shape}, 0, {kind})", "total") for _ in self.taps]
        depth = [self._tiles(self.loops[v]) if v == sums.tiled.moving else self.loops[v] for v in sums.depth]
        self.quotient = Expr.of(depth[sums.depth.index(sums.tiled.moving)])
        length = product([ceildiv(v.extent, block.tile) if v == sums.tiled.moving else v.extent for v in sums.depth])
        count = printer.dim(product([v.extent for v in depth]))
        with code.block(f"for start in range(0, {count}, ROWS):"), printer.scope():
            code.line(f"x = (start + tl.arange(0, ROWS){self.down}).to(INT)")
            inside = "" if is_whole(length, block.rows) else code.let(f"x < {count}", "within")
            printer.axes["x"] = Axis("x", inside)
            printer.walk_flat(depth, "x", frozenset("x"))
            for number in range(block.tile):
                self._add(number)
        self._store()
        constants = {"ROWS": block.rows} | ({} if sums.column is None else {"COLUMNS": block.columns})
        about = f"Sums over tiles of {block.tile} positions, an accumulator for each tap of windows."
        iterations = product([v.extent for v in sums.kernel.parallel])
        made = closed(printer, self.kernel, about, constants, programs, self.values, iterations, block.warps)
        return replace(made, registers=block.registers)

    def _program(self) -> Dim:
        """Binds the loops that have one index in a program, and the columns; returns the number of programs."""
        sums, code, printer, block = self.sums, self.code, self.printer, self.block
        rest = code.let("tl.program_id(0).to(INT)", "program")
        programs: Dim = 1
        if sums.column is not None:
            loop, extent = self.loops[sums.column], sums.column.extent
            blocks = code.let(f"tl.cdiv({printer.dim(loop.extent)}, COLUMNS)", "blocks")
            code.line(f"y = ({rest} % {blocks}) * COLUMNS + tl.arange(0, COLUMNS){self.right}")
            mask = "" if is_whole(extent, block.columns) else code.let(f"y < {printer.dim(loop.extent)}", "inside")
            printer.axes["y"] = Axis("y", mask)
            printer.put(loop, "y", frozenset("y"))
            rest = code.let(f"{rest} // {blocks}", "program")
            programs = ceildiv(extent, block.columns)
        single = [v for v in sums.kernel.parallel if v not in sums.taps and v != sums.column]
        printer.walk_flat([self.loops[v] for v in single], rest, NONE)
        return programs * product([v.extent for v in single])

    def _tiles(self, loop: LoopVar) -> LoopVar:
        return LoopVar(f"{loop.name}q", ceildiv(loop.extent, self.block.tile))

    def _add(self, number: int) -> None:
        """Adds one position of a tile to every tap."""
        moving = self.loops[self.sums.tiled.moving]
        index = self.quotient * self.block.tile + number
        here = ""
        if number and not is_whole(self.sums.tiled.moving.extent, self.block.tile):
            here = self.code.let(f"{self.printer.dim(index)} < {self.printer.dim(moving.extent)}", "here")
        for taps, total in zip(self.taps, self.totals, strict=True):
            values: dict[Atom, Dim] = {**taps, moving: index}
            for slide in self.sums.slides:
                at, tap = self.loops[slide.moving], self.loops[slide.tap]
                along = index if at == moving else Expr.of(at)
                values[slide.position] = along * slide.stride + values.get(tap, Expr.of(tap)) * slide.dilation
            body = self.instances.at(self.reduction.body, values)
            if is_nothing(body):
                continue
            tests = [here] if here else []
            if (inside := self.printer.axes["x"].mask) and "x" not in self.printer.span_of(body):
                tests.append(inside)  # no load is masked: every row would add the same value
            value = self.printer.value(body)
            value = f"tl.where({' & '.join(tests)}, {value}, 0)" if tests else value
            self.code.line(f"{total} = {total} + {value}")

    def _store(self) -> None:
        printer = self.printer
        self.printer.axes.pop("x", None)
        for number, (taps, total) in enumerate(zip(self.taps, self.totals, strict=True)):
            text = self.code.let(f"tl.sum({total}, 0){self.right}", "sum")
            printer.reduced[self.reduction.name] = (text, frozenset("y") if self.right else NONE)
            for write in self.kernel.stages[1].writes:
                value = self.instances.at(write.value, {**taps}, number)
                printer.store(replace(write, offset=substitute(write.offset, {**taps}), value=value))
