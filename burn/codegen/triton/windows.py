"""Prints loop kernels whose reductions slide over windows that overlap: depthwise convolutions and pooling.

A thread computes a tile of adjacent results. Their windows overlap, so it loads each element of the input once for all of
them. Taps are unrolled, and results stay in registers. `emit` is the entry point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import lcm, prod

from burn.codegen.triton.code import NONE, Axis, Guard
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.windows import MOST_TAPS, WindowBlock, window_block
from burn.codegen.triton.instances import InstancePrinter, Instances, is_nothing
from burn.codegen.triton.loops import COMBINE
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.triton.scalars import constant
from burn.dialect.dims import (
    Atom,
    Call,
    Dim,
    Expr,
    LoopVar,
    atoms,
    ceildiv,
    coefficient,
    estimate,
    product,
    substitute,
    terms,
)
from burn.dialect.types import DTYPES
from burn.kernels.body import (
    Apply,
    Const,
    Convert,
    Load,
    LoopKernel,
    Reduction,
    Reinterpret,
    Scalar,
    Stage,
    Where,
    identity,
    own_dims,
    walk,
)
from burn.kernels.parameters import parametrize
from burn.kernels.sliding import Slide, slides

X = frozenset("x")


@dataclass(frozen=True)
class Windows:
    """A kernel whose reduction reads positions of sliding windows. order: the parallel loops by number, the contiguous one last;
    taps: the reduction's loops, those of the tiled slide last."""

    kernel: LoopKernel
    slides: tuple[Slide, ...]
    tiled: Slide
    order: tuple[int, ...]
    taps: tuple[LoopVar, ...]
    block: WindowBlock


def windows_of(kernel: LoopKernel, processors: int) -> Windows | None:
    """The windows of a kernel; None if it has no reduction over windows that overlap."""
    reduction = only_reduction(kernel)
    if reduction is None:
        return None
    loops = kernel.stages[0].loops
    counts = [v.extent for v in loops if isinstance(v.extent, int)]
    if len(counts) < len(loops) or not 1 < prod(counts) <= MOST_TAPS:
        return None
    body, found = slides(reduction.body, kernel.parallel, loops)
    if not found:
        return None
    fast = contiguous(kernel, kernel.parallel)
    tiled = next((s for s in reversed(found) if s.moving != fast), found[-1])
    taps = (*(v for v in loops if v != tiled.tap), tiled.tap)
    block = window_block(
        product([v.extent for v in kernel.parallel]),
        tiled.moving.extent,
        [v.extent for v in taps if isinstance(v.extent, int)],
        max((DTYPES[n.dtype].bits + 7) // 8 for n in walk(body) if isinstance(n, Load)),
        processors,
        contiguous=all(s.moving != fast for s in found),
        multiple=tile_multiple(body, tiled.position),
    )
    if not is_whole(tiled.moving.extent, block.tile):
        body = bounded(body, (tiled.position, tiled.moving))
    first = replace(kernel.stages[0], reductions=(replace(reduction, body=body),))
    positioned = replace(kernel, stages=(first, kernel.stages[1]))
    return Windows(positioned, found, tiled, by_stride(kernel, fast), taps, block)


def _step(offset: Dim, loop: LoopVar) -> float:
    """The step of an offset along a loop: its mean if the offset divides the loop's index, 0 if it is unknown."""
    found = coefficient(offset, loop)
    if found is not None:
        return found if isinstance(found, int) else estimate(found)
    last = estimate(loop.extent) - 1
    whole = substitute(offset, {loop: last}) - substitute(offset, {loop: 0})
    return whole / last if isinstance(whole, int) and last > 0 else 0


def is_whole(extent: Dim, tile: int) -> bool:
    return isinstance(extent, int) and extent % tile == 0


def only_reduction(kernel: LoopKernel) -> Reduction | None:
    """The only reduction of a kernel of one reduction and an epilogue."""
    if kernel.column_reductions or any(b.access == "scratch" for b in kernel.buffers):
        return None
    match kernel.stages:
        case (
            Stage(reductions=(reduction,), writes=(), order="parallel"),
            Stage(loops=(), reductions=(), order="parallel"),
        ):
            loaded = any(isinstance(node, Load) for node in walk(reduction.body))
            return reduction if loaded and reduction.kind in COMBINE else None
    return None


def contiguous(kernel: LoopKernel, loops: Sequence[LoopVar]) -> LoopVar:
    """The loop of `loops` along which most elements are contiguous."""
    votes: Counter[LoopVar] = Counter()
    loads = [n.offset for s in kernel.stages for n in walk(*s.scalars) if isinstance(n, Load)]
    for offset in (*loads, *(w.offset for w in kernel.stages[1].writes)):
        steps = {v: step for v in loops if (step := _step(offset, v)) > 0}
        if steps:
            moving = [v.extent for v in steps]
            votes[min(steps, key=lambda v: steps[v])] += estimate(product(moving))
    return max(votes, key=lambda v: votes[v], default=loops[-1])


def by_stride(kernel: LoopKernel, last: LoopVar) -> tuple[int, ...]:
    """The parallel loops by number, those with large strides in the result first, and `last` behind them."""
    target = kernel.stages[1].writes[0].offset

    def step(number: int) -> tuple[bool, int]:
        stride = coefficient(target, kernel.parallel[number])
        return kernel.parallel[number] == last, 0 if stride is None else -estimate(stride)

    return tuple(sorted(range(len(kernel.parallel)), key=step))


def tile_multiple(body: Scalar, position: LoopVar) -> int:
    """The number of positions after which conditions on remainders of a position repeat: the tile of a dilated operand (a
    transposed convolution) is a multiple of it."""
    found = 1
    for dim in (d for node in walk(body) for d in own_dims(node)):
        for atom in (a for monomial, _ in terms(dim) for a in monomial if isinstance(a, Call)):
            if atom.op in ("mod", "floordiv") and isinstance(atom.args[1], int) and position in atoms(atom.args[0]):
                found = lcm(found, atom.args[1])
    return found if found <= MOST_PHASES else 1


MOST_PHASES = 8
"""The longest period of remainders that a tile covers."""


def bounded(body: Scalar, loops: Sequence[LoopVar]) -> Scalar:
    """The body with loads that stop at the last iteration of these loops, which a tile may pass. A load without a condition on a
    loop that it advances with gets one."""
    made: dict[tuple[int, frozenset[LoopVar]], Scalar] = {}

    def bound(node: Scalar, checked: frozenset[LoopVar]) -> Scalar:
        key = (id(node), checked)
        if key not in made:
            made[key] = rebuilt(node, checked)
        return made[key]

    def rebuilt(node: Scalar, checked: frozenset[LoopVar]) -> Scalar:
        match node:
            case Load(offset=offset):
                ranges = tuple((Expr.of(v), v.extent) for v in loops if v in atoms(offset) and v not in checked)
                return Where(node.dtype, ranges, node, Const(node.dtype, 0)) if ranges else node
            case Where(ranges=ranges):
                inside = checked | {v for v in loops if any(v in atoms(index) for index, _ in ranges)}
                return replace(node, then=bound(node.then, inside), otherwise=bound(node.otherwise, checked))
            case Apply(args=args):
                return replace(node, args=tuple(bound(arg, checked) for arg in args))
            case Convert(arg=arg) | Reinterpret(arg=arg):
                return replace(node, arg=bound(arg, checked))
        return node

    return bound(body, frozenset())


def emit(windows: Windows, sites: list[str]) -> Printed:
    """The function of a kernel of windows."""
    return _Printer(windows, sites).print()


class _Printer:
    def __init__(self, windows: Windows, sites: list[str]) -> None:
        self.windows, self.block = windows, windows.block
        self.kernel, self.values = parametrize(windows.kernel)
        self.printer = opened(self.kernel.buffers, sites, InstancePrinter)
        self.code = self.printer.code
        self.instances = Instances()
        sizes, general = windows.kernel, self.kernel
        known = [*sizes.parallel, *sizes.stages[0].loops]
        self.loops = dict(zip(known, (*general.parallel, *general.stages[0].loops), strict=True))
        self.reduction = general.stages[0].reductions[0]

    def print(self) -> Printed:
        windows, code, printer, block = self.windows, self.code, self.printer, self.block
        tiled = windows.tiled.moving
        extents = [self._tiles(v.extent) if v == tiled else v.extent for v in windows.kernel.parallel]
        count = product(extents)
        code.line("x = tl.program_id(0).to(INT) * ROWS + tl.arange(0, ROWS)")
        general = [self._outer(self.loops[v]) if v == tiled else self.loops[v] for v in windows.kernel.parallel]
        mask = ""
        if not isinstance(count, int) or count % block.rows:
            mask = "inside"
            code.line(f"inside = x < {printer.dim(product([v.extent for v in general]))}")
        printer.axes["x"] = Axis("x", mask)
        printer.walk_flat([general[i] for i in windows.order], "x", X)
        self.quotient = Expr.of(general[windows.kernel.parallel.index(tiled)])
        start = constant(self.reduction.dtype, identity(self.reduction.kind, self.reduction.dtype))
        full = start[len("tl.full((), ") : start.rindex(",")]
        kind = triton_type(self.reduction.dtype)
        self.totals = [code.let(f"tl.full([ROWS], {full}, {kind})", "total") for _ in range(block.tile)]
        self._taps()
        for number in range(block.tile):
            self._store(number)
        about = f"A tile of {block.tile} results for each element of a block; {self.reduction.kind} over windows."
        programs = ceildiv(count, block.rows)
        made = closed(printer, self.kernel, about, {"ROWS": block.rows}, programs, self.values, count, block.warps)
        return replace(made, registers=block.registers)

    def _tiles(self, extent: Dim) -> Dim:
        return ceildiv(extent, self.block.tile)

    def _outer(self, loop: LoopVar) -> LoopVar:
        """The loop over tiles."""
        return LoopVar(f"{loop.name}q", self._tiles(loop.extent))

    def _moving(self, number: int) -> Dim:
        """The index of a tile's result along the tiled loop."""
        return self.quotient * self.block.tile + number

    def _taps(self) -> None:
        """Combines all taps; the outer ones that are not unrolled are loops."""
        taps = [self.loops[v] for v in self.windows.taps]
        outer, inner = taps[: len(taps) - self.block.unrolled], taps[len(taps) - self.block.unrolled :]
        with ExitStack() as stack:
            for loop in outer:
                stack.enter_context(self.code.block(f"for {loop.name} in range(0, {self.printer.dim(loop.extent)}):"))
                self.printer.put(loop, loop.name, NONE)
            if outer:
                stack.enter_context(self.printer.scope())
            for index in combinations(*(range(self._count(v)) for v in inner)):
                for number in range(self.block.tile):
                    self._combine(number, dict(zip(inner, index, strict=True)))

    def _count(self, tap: LoopVar) -> int:
        """The number of taps of a loop, which may be an argument of the kernel."""
        (extent,) = (old.extent for old, new in self.loops.items() if new == tap)
        assert isinstance(extent, int)
        return extent

    def _combine(self, number: int, taps: dict[LoopVar, int]) -> None:
        values: dict[Atom, Dim] = {**taps}
        tiled = self.windows.tiled.moving
        values[self.loops[tiled]] = self._moving(number)
        for slide in self.windows.slides:
            moving, tap = self.loops[slide.moving], self.loops[slide.tap]
            index = self._moving(number) if slide.moving == tiled else Expr.of(moving)
            values[slide.position] = index * slide.stride + values.get(tap, Expr.of(tap)) * slide.dilation
        body = self.instances.at(self.reduction.body, values)
        if self.reduction.kind == "sum" and (is_nothing(body) or (isinstance(body, Const) and body.value == 0)):
            return
        total, value = self.totals[number], self.printer.value(body)
        if self.reduction.kind == "sum":
            self.code.line(f"{total} = {total} + {value}")
        else:
            self.code.line(f"{total} = {COMBINE[self.reduction.kind]}({total}, {value})")

    def _store(self, number: int) -> None:
        """The epilogue of one of a tile's results."""
        printer, loop = self.printer, self.loops[self.windows.tiled.moving]
        index = self._moving(number)
        values: dict[Atom, Dim] = {loop: index}
        printer.reduced[self.reduction.name] = (self.totals[number], X)
        whole = number == 0 or is_whole(self.windows.tiled.moving.extent, self.block.tile)
        with ExitStack() as stack:
            if not whole:
                here = self.code.let(f"{printer.dim(index)} < {printer.dim(loop.extent)}", "here")
                stack.enter_context(printer.under(Guard(X, here)))
            for write in self.kernel.stages[1].writes:
                value = self.instances.at(write.value, values, number)
                printer.store(replace(write, offset=substitute(write.offset, values), value=value))
