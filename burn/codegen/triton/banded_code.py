"""Prints depthwise convolutions as matmuls with banded matrices (`banded.py`), in Gluon. `emit` is the entry point.

Images are channels-last: loads are contiguous along channels, and shared memory transposes them for the matrix instructions.
A step is loaded before the steps before it are multiplied. Triton's own passes would move such loads to their uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product as combinations

from burn.codegen.triton.banded import Banded
from burn.codegen.triton.banded_memory import Memory
from burn.codegen.triton.bands import HALF, taps_of
from burn.codegen.triton.code import Axis, Code, Guard
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.banded import (
    AHEAD,
    DEPTH,
    TILES,
)
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon
from burn.codegen.triton.instances import InstancePrinter, Instances
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.windows import is_whole
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, ceildiv, product, substitute
from burn.kernels.body import (
    Apply,
    Const,
    Load,
    Reduced,
    Scalar,
    Where,
    Write,
    walk,
)
from burn.kernels.parameters import parametrize
from burn.kernels.sliding import Slide

BLOCK = frozenset("xpc")
"""The axes of a block: tiles, positions or results of a step, and channels."""

VECTOR = 8
"""Adjacent channels of a thread: 16 bytes."""

ROW = 8
"""Positions of a row of `stmatrix`: 16 bytes."""

INSTRUCTION = 8
"""Columns of a matrix instruction."""


def emit(banded: Banded, sites: list[str]) -> Printed:
    """The function of such a kernel."""
    return _Printer(banded, sites).print()


Step = tuple[int, tuple[int, ...]]
"""A step of positions: its number, and the taps of the outer slides."""


class _Printer:
    def __init__(self, banded: Banded, sites: list[str]) -> None:
        self.banded, self.geometry, self.block = banded, banded.geometry, banded.block
        self.kernel, self.values = parametrize(banded.kernel)
        opened(self.kernel.buffers, sites)
        self.code, self.sites = Code(), sites
        known = (*banded.kernel.parallel, *banded.kernel.stages[0].loops)
        general = (*self.kernel.parallel, *self.kernel.stages[0].loops)
        self.loops = dict(zip(known, general, strict=True))
        (self.reduction,) = self.kernel.stages[0].reductions
        assert isinstance(self.reduction.body, Apply)
        self.image, self.weight = self.reduction.body.args
        self.instances = Instances()
        self.position, self.result = LoopVar("p", DEPTH), LoopVar("o", self.geometry.columns)
        self.walk = self._number(self.geometry.walked)
        self.across = self.walk if self.geometry.is_flat else self._number(self.geometry.band)
        self.steps = self._steps()

    # ---- steps -------------------------------------------------------------------------------------------------------------
    def _number(self, slide: Slide) -> LoopVar:
        """The loop that numbers tiles along the moving loop of a slide."""
        return LoopVar(f"{slide.moving.name}q", self._tiles(slide, self.loops[slide.moving].extent))

    def _tiles(self, slide: Slide, extent: Dim) -> Dim:
        size = 1 if slide != self.geometry.walked else self.block.walked
        return ceildiv(extent, size if slide != self.geometry.band else size * self.geometry.results)

    def _steps(self) -> dict[Step, Scalar]:
        """The images of the steps that are not zero everywhere, in order."""
        last = (self.block.walked - 1) * self.geometry.stride + self.geometry.reached[-1]
        outer = list(combinations(*(range(taps_of(s)) for s in self.geometry.outer)))
        found = {(n, taps): self._image(n, taps) for n in range(last + 1) for taps in outer if self._users((n, taps))}
        return {step: image for step, image in found.items() if not isinstance(image, Const)}

    def _users(self, step: Step) -> list[tuple[int, int]]:
        """The steps of results that read a step of positions, each with its matrix."""
        results = range(self.block.walked)
        found = ((n, step[0] - n * self.geometry.stride) for n in results)
        return [(n, self.geometry.reached.index(at)) for n, at in found if at in self.geometry.reached]

    def _image(self, step: int, taps: tuple[int, ...]) -> Scalar:
        geometry = self.geometry
        start = Expr.of(self.walk) * self.block.walked
        values: dict[Atom, Dim] = {}
        if geometry.is_flat:
            values[geometry.band.position] = (start + step) * DEPTH + Expr.of(self.position)
        else:
            values[geometry.walked.position] = start * geometry.stride + step
            values[geometry.band.position] = Expr.of(self.across) * (geometry.results * geometry.band.stride) + Expr.of(
                self.position
            )
        for slide, tap in zip(geometry.outer, taps, strict=True):
            values[slide.position] = Expr.of(self.loops[slide.moving]) * slide.stride + tap * slide.dilation
        return self.instances.at(self.image, values)

    # ---- the kernel --------------------------------------------------------------------------------------------------------
    def print(self) -> Printed:
        code, block, banded = self.code, self.block, self.banded
        self._layouts()
        extent = self.loops[banded.channel].extent
        tiled = [self._tile_loop(v) for v in banded.tiled]
        first = self._printer()
        blocks = code.let(f"tl.cdiv({first.dim(extent)}, {block.channels})", "blocks")
        self.program = code.let("tl.program_id(0).to(INT)", "program")
        self.channels = code.let(f"{self.program} % {blocks} * {block.channels}", "channels")
        self.first = code.let(f"{self.program} // {blocks} * {TILES}", "tile")
        loading, storing = self._axes("LOADED", tiled), self._axes("STORED", tiled)
        needed = self.geometry.needed
        loading.axes["p"].mask = code.let(f"{loading.axes['p'].indices} < {needed}", "read") if needed < DEPTH else ""
        loading.put(self.position, loading.axes["p"].indices, frozenset("p"))
        storing.put(self.result, storing.axes["p"].indices, frozenset("p"))
        band = self.loops[self.geometry.band.moving]
        tests = []
        if self.geometry.results < self.geometry.columns:
            tests.append(f"({storing.axes['p'].indices} < {self.geometry.results})")
        if not self.geometry.is_flat and not is_whole(self.geometry.band.moving.extent, self.geometry.results):
            tests.append(f"({storing.dim(self._index(self.geometry.band, 0))} < {storing.dim(band.extent)})")
        if tests:
            storing.axes["p"].mask = code.let(" & ".join(tests), "written")
        self._sums(loading, storing)
        return self._printed()

    def _printed(self) -> Printed:
        kernel, banded, block = self.kernel, self.banded, self.block
        names, arguments = given(kernel, self.values)
        names = [*names, "INT: tl.constexpr"]
        about = f"{TILES} tiles of {block.walked} steps, {block.channels} channels; an image times bands of a weight."
        made = in_gluon(["\n".join([function_head("KERNEL", names, about), *self.code.lines])])
        moving = {s.moving: s for s in (self.geometry.band, self.geometry.walked)}
        extents = [self._tiles(moving[v], v.extent) if v in moving else v.extent for v in banded.tiled]
        programs = ceildiv(product(extents), TILES) * ceildiv(banded.channel.extent, block.channels)
        return Printed("KERNEL", made, tuple(arguments), {}, programs, block.warps, 1)

    def _tile_loop(self, loop: LoopVar) -> LoopVar:
        numbers = {self.geometry.band.moving: self.across, self.geometry.walked.moving: self.walk}
        return numbers.get(loop, self.loops[loop])

    def _printer(self) -> InstancePrinter:
        return InstancePrinter(self.code, self.kernel.buffers, self.sites)

    def _layouts(self) -> None:
        """Layouts of loaded steps and of stored ones, [tile, position or result, channel], and those of matrices, [channel, row,
        column], with whole channels in each warp. A thread has adjacent channels, 16 bytes. Four threads have a position, in one
        tile or several, and eight have the positions of a row of `stmatrix`."""
        block = self.block
        threads = block.channels // VECTOR
        for name in ("LOADED", "STORED"):
            down = 32 // threads // ROW
            tiles = min(block.warps, TILES // down)
            shape = f"[{down}, {ROW}, {threads}], [{tiles}, {block.warps // tiles}, 1], [2, 0, 1]"
            self.code.line(f"{name}: tl.constexpr = tl.BlockedLayout([1, 1, {VECTOR}], {shape})")
        self.code.line(
            f"SUMS: tl.constexpr = tl.NVMMADistributedLayout([2, 0], [{block.warps}, 1, 1], [1, {TILES}, {INSTRUCTION}])"
        )
        self.code.line("LEFT: tl.constexpr = tl.DotOperandLayout(0, SUMS, 2)")
        self.code.line("RIGHT: tl.constexpr = tl.DotOperandLayout(1, SUMS, 2)")

    def _arange(self, name: str, length: int, axis: int) -> str:
        """Indices along one axis of a layout."""
        outer, inner = [i for i in (2, 1, 0) if i != axis]
        layout = f"tl.SliceLayout({inner}, tl.SliceLayout({outer}, {name}))"
        indices = f"tl.expand_dims(tl.expand_dims(tl.arange(0, {length}, {layout}), {inner}), {outer})"
        return self.code.let(f"{indices}.to(INT)", "i")

    def _axes(self, name: str, tiled: Sequence[LoopVar]) -> InstancePrinter:
        """A printer of blocks in a layout."""
        code, printer = self.code, self._printer()
        x = code.let(f"{self.first} + {self._arange(name, TILES, 0)}", "x")
        inside = code.let(f"{x} < {printer.dim(product([v.extent for v in tiled]))}", "inside")
        printer.axes["x"] = Axis(x, inside)
        printer.walk_flat(tiled, x, frozenset("x"))
        length = DEPTH if name == "LOADED" else self.geometry.columns
        printer.axes["p"] = Axis(self._arange(name, length, 1))
        self._channels(printer, name)
        return printer

    def _channels(self, printer: InstancePrinter, name: str) -> None:
        channel = self.loops[self.banded.channel]
        c = self.code.let(f"{self.channels} + {self._arange(name, self.block.channels, 2)}", "c")
        whole = is_whole(self.banded.channel.extent, self.block.channels)
        printer.axes["c"] = Axis(c, "" if whole else self.code.let(f"{c} < {printer.dim(channel.extent)}", "inside"))
        printer.put(channel, c, frozenset("c"))

    # ---- matmuls -----------------------------------------------------------------------------------------------------------
    def _sums(self, loading: InstancePrinter, storing: InstancePrinter) -> None:
        """Loads the weight and the first steps before any of them is waited for."""
        code, block = self.code, self.block
        used = {(step[1], matrix) for step in self.steps for _, matrix in self._users(step)}
        bands = {key: band for key, band in self._bands().items() if key in used}
        loaded = {step: self._block_of(loading, image) for step, image in list(self.steps.items())[:AHEAD]}
        memory = self._memory()
        matrices = dict(zip(bands, memory.matrices(list(bands.values())), strict=True))
        memory.steps()
        totals = [
            code.let(f"tl.full([{block.channels}, {TILES}, {self.geometry.columns}], 0.0, tl.float32, SUMS)", "total")
            for _ in range(block.walked)
        ]
        ends = {n: step for step in self.steps for n, _ in self._users(step)}
        waiting: list[tuple[int, str]] = []

        def store() -> None:
            while waiting:
                n, buffer = waiting.pop()
                self._store(storing, n, memory.kept(buffer))

        def keep(n: int) -> None:
            store()
            waiting.append((n, memory.keep(totals[n])))

        for n in range(block.walked):
            if n not in ends:  # no position under its windows exists
                keep(n)
        steps = list(self.steps.items())
        for number, (step, _) in enumerate(steps):
            if number + AHEAD < len(steps):
                following, image = steps[number + AHEAD]
                loaded[following] = self._block_of(loading, image)
            left = memory.left(loaded.pop(step))
            store()
            for n, matrix in self._users(step):
                right = matrices[step[1], matrix]
                code.line(f"{totals[n]} = mma_v2({left}, {right}, {totals[n]})")
            for n, _ in self._users(step):
                if ends[n] == step:
                    keep(n)
        store()

    def _memory(self) -> Memory:
        """The buffers. Results that the epilogue reads in half precision are rounded before they are stored there."""
        kinds = {n.dtype for w in self.kernel.stages[1].writes for n in walk(w.value) if isinstance(n, Reduced)}
        sums = next(iter(kinds & HALF), "float32")
        return Memory(self.code, self.image.dtype, sums, self.block.channels, self.geometry.columns)

    def _block_of(self, printer: InstancePrinter, image: Scalar) -> str:
        """A step of an image. Positions that no window reads are zeros, since bands multiply them by zeros."""
        value, mask = printer.value(image), printer.axes["p"].mask
        if mask and not _is_zero_where_masked(image):
            value = self.code.let(f"tl.where({mask}, {value}, 0.0).to({triton_type(image.dtype)})")
        if printer.span_of(image) != BLOCK:
            shape = f"[{TILES}, {DEPTH}, {self.block.channels}]"
            value = f"{value} + tl.full({shape}, 0.0, {triton_type(image.dtype)}, LOADED)"
        return self.code.let(value, "step")

    def _bands(self) -> dict[tuple[tuple[int, ...], int], str]:
        """The loaded matrices [position, result, channel], by the taps of the outer slides and the number of a matrix."""
        geometry, code, printer = self.geometry, self.code, self._printer()
        row, column = self._arange("STORED", DEPTH, 0), self._arange("STORED", geometry.columns, 1)
        printer.axes |= {"x": Axis(row), "p": Axis(column)}
        self._channels(printer, "STORED")
        band, outer = geometry.band, list(combinations(*(range(taps_of(s)) for s in geometry.outer)))
        found: dict[tuple[tuple[int, ...], int], str] = {}
        for matrix in range(len(geometry.reached)):
            if geometry.is_flat or matrix == 0:
                guard = self._tap(printer, f"{row} + {DEPTH * matrix} - {column} * {band.stride}")
            for taps in outer:
                values: dict[Atom, Dim] = {self.loops[band.tap]: Expr.of(self.tap)}
                if not geometry.is_flat:
                    values[self.loops[geometry.walked.tap]] = matrix
                for slide, tap in zip(geometry.outer, taps, strict=True):
                    values[self.loops[slide.tap]] = tap
                weight = self.instances.at(self.weight, values)
                with printer.under(guard):
                    value = printer.value(weight)
                if not isinstance(weight, Load):
                    value = f"tl.where({guard.text}, {value}, 0.0).to({triton_type(weight.dtype)})"
                found[taps, matrix] = code.let(value, "band")
        return found

    def _tap(self, printer: InstancePrinter, distance: str) -> Guard:
        """Binds the tap at a distance of a position from a result's first one; returns the guard of distances with a tap."""
        dilation, taps = self.geometry.band.dilation, taps_of(self.geometry.band)
        distance = self.code.let(distance, "distance")
        tap = distance if dilation == 1 else self.code.let(f"{distance} // {dilation}", "tap")
        tests = [f"({distance} >= 0)", f"({tap} < {taps})"]
        tests += [f"({distance} % {dilation} == 0)"] if dilation > 1 else []
        self.tap = LoopVar(f"t{distance}", taps)
        printer.put(self.tap, tap, frozenset("xp"))
        return Guard(frozenset("xp"), self.code.let(" & ".join(tests), "banded"))

    # ---- results -----------------------------------------------------------------------------------------------------------
    def _index(self, slide: Slide, step: int) -> Dim:
        """The index of a step's results along the moving loop of a slide."""
        along = Expr.of(self.walk) * self.block.walked + step
        if self.geometry.is_flat:
            return along * self.geometry.results + Expr.of(self.result)
        if slide == self.geometry.walked:
            return along
        return Expr.of(self.across) * self.geometry.results + Expr.of(self.result)

    def _store(self, printer: InstancePrinter, step: int, sums: str) -> None:
        """The epilogue of a step of results."""
        code, geometry = self.code, self.geometry
        stage, moving = self.kernel.stages[1], (geometry.walked, geometry.band)
        values: dict[Atom, Dim] = {self.loops[s.moving]: self._index(s, step) for s in moving}
        printer.reduced[self.reduction.name] = (sums, BLOCK)
        walked = geometry.walked.moving
        size = self.block.walked * (geometry.results if geometry.is_flat else 1)
        with ExitStack() as stack:
            if not is_whole(walked.extent, size) and (step or geometry.is_flat):
                index, extent = self._index(geometry.walked, step), self.loops[walked].extent
                here = code.let(f"{printer.dim(index)} < {printer.dim(extent)}", "here")
                stack.enter_context(printer.under(Guard(frozenset("xp" if geometry.is_flat else "x"), here)))
            for write in stage.writes:
                value = self.instances.at(write.value, values, step)
                printer.store(Write(write.buffer, substitute(write.offset, values), value))


def _is_zero_where_masked(image: Scalar) -> bool:
    """True for a load, which masks make zero."""
    match image:
        case Load():
            return True
        case Where(then=Load(), otherwise=Const(value=value)):
            return value == 0
    return False
