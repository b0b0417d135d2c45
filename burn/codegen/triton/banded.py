"""Prints depthwise convolutions in half precision as matmuls with banded matrices, in Gluon. `emit` is the entry point.

For one channel, adjacent results along an axis are the positions under their windows times a banded matrix of the taps. A program
has 16 tiles and a block of channels, and a warp has whole channels. A tile walks along another axis of the image: a step loads
its positions once, for the results of all windows that they belong to, each through its own matrix. In one dimension a tile walks
along the only axis, in steps of as many positions as results; a window then reaches over several steps.

Images are channels-last: loads are contiguous along channels, and shared memory transposes them for the matrix instructions.
A step is loaded before the steps before it are multiplied. Triton's own passes would move such loads to their uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.code import Axis, Code, Guard
from burn.codegen.triton.functions import narrowed, triton_type
from burn.codegen.triton.heuristics.banded import (
    AHEAD,
    DEPTH,
    LEAST_CHANNELS,
    LEAST_TAPS,
    RESULTS,
    TILES,
    BandBlock,
    band_block,
    shapes_of,
)
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon
from burn.codegen.triton.instances import InstancePrinter, Instances
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.windows import bounded, by_stride, contiguous, is_whole, only_reduction, tile_multiple
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, atoms, ceildiv, product, substitute
from burn.dialect.types import HALF_DTYPES
from burn.kernels.body import (
    Apply,
    Const,
    Convert,
    Fetched,
    Load,
    LoopKernel,
    Reduced,
    Reduction,
    Rewriter,
    Scalar,
    Stage,
    Where,
    Write,
    children,
    own_dims,
    walk,
)
from burn.kernels.parameters import parametrize
from burn.kernels.sliding import Slide, slides

BLOCK = frozenset("xpc")
"""The axes of a block: tiles, positions or results of a step, and channels."""

HALF = frozenset(HALF_DTYPES)

VECTOR = 8
"""Adjacent channels of a thread: 16 bytes."""

INSTRUCTION = 8
"""Columns of a matrix instruction."""


@dataclass(frozen=True)
class Geometry:
    """How results are matmuls. band: the slide along the results of a step; walked: the slide along which a tile walks, the band
    itself in one dimension; outer: further slides, whose taps are matrices of their own; results: of a step."""

    band: Slide
    walked: Slide
    outer: tuple[Slide, ...]
    results: int

    @property
    def is_flat(self) -> bool:
        return self.band == self.walked

    @property
    def span(self) -> int:
        """The positions under a window."""
        return (_taps(self.band) - 1) * self.band.dilation + 1

    @property
    def needed(self) -> int:
        """The positions of a step that windows read."""
        return DEPTH if self.is_flat else (self.results - 1) * self.band.stride + self.span

    @property
    def reached(self) -> tuple[int, ...]:
        """The steps of positions that a step of results reads, from its own on: one for each matrix."""
        if self.is_flat:
            return tuple(range(-(-(self.results - 1 + self.span) // DEPTH)))
        return tuple(i * self.walked.dilation for i in range(_taps(self.walked)))

    @property
    def stride(self) -> int:
        """Steps of positions between two steps of results."""
        return 1 if self.is_flat else self.walked.stride

    def extent(self) -> Dim:
        """Steps of results."""
        return ceildiv(self.walked.moving.extent, self.results) if self.is_flat else self.walked.moving.extent

    def bands(self) -> int:
        return len(self.reached) * prod(map(_taps, self.outer))


@dataclass(frozen=True)
class Banded:
    """A kernel that sums an image under windows times a weight. Its reduction multiplies the two in half precision. channel: the
    parallel loop along which both are contiguous; tiled: the parallel loops that number tiles, those of the geometry last."""

    kernel: LoopKernel
    geometry: Geometry
    channel: LoopVar
    tiled: tuple[LoopVar, ...]
    block: BandBlock


def banded_of(kernel: LoopKernel, abilities: Abilities, hints: SizeHints = UNKNOWN) -> Banded | None:
    """The matmuls of a kernel. None if it is no depthwise convolution of channels-last images in half precision. None as well if
    its bands are wider than a matrix instruction, or its taps or channels too few."""
    reduction = only_reduction(kernel) if abilities.fragments and abilities.banded else None
    if reduction is None or _reads_indices(kernel):
        return None
    factors = _factors(reduction)
    loops = kernel.stages[0].loops
    if factors is None or any(not isinstance(v.extent, int) for v in loops):
        return None
    body, found = slides(Apply("float32", "mul", factors), kernel.parallel, loops)
    assert isinstance(body, Apply)
    if not found or {v for v in loops if v.extent != 1} != {s.tap for s in found}:
        return None
    separated = _separated(body, found)
    if separated is None:
        return None
    image, weight = separated
    own = [v for v in kernel.parallel if v in _atoms(weight)]
    if own != [contiguous(kernel, kernel.parallel)] or not isinstance(own[0].extent, int):
        return None
    geometry = _geometry(kernel, own[0], found)
    if geometry is None or prod(map(_taps, found)) < LEAST_TAPS or own[0].extent < LEAST_CHANNELS:
        return None
    moving = (geometry.band.moving, geometry.walked.moving)
    rest = tuple(v for v in kernel.parallel if v != own[0] and v not in moving)
    block = _block(geometry, own[0].extent, rest, image, abilities, hints)
    if block is None:
        return None
    image = bounded(image, _passed(geometry, block))
    first = replace(reduction, body=Apply("float32", "mul", (image, weight)))
    made = replace(kernel, stages=(replace(kernel.stages[0], reductions=(first,)), _rounded(kernel.stages[1])))
    tiled = (*rest, *dict.fromkeys(reversed(moving)))
    return Banded(made, geometry, own[0], tiled, block)


def _factors(reduction: Reduction) -> tuple[Scalar, Scalar] | None:
    match reduction:
        case Reduction(kind="sum", body=Apply(function="mul", args=(lhs, rhs))):
            found = narrowed((lhs, rhs), reduction.dtype)
            return None if found is None else (found[0], found[1])
    return None


def _reads_indices(kernel: LoopKernel) -> bool:
    """True if results are read or written at indices from data."""
    nodes = [dim for s in kernel.stages for node in walk(*s.scalars) for dim in own_dims(node)]
    nodes += [w.offset for s in kernel.stages for w in s.writes]
    return any(isinstance(atom, Fetched) for dim in nodes for atom in atoms(dim))


def _atoms(node: Scalar) -> set[Atom]:
    return {atom for part in walk(node) for dim in own_dims(part) for atom in atoms(dim)}


def _taps(slide: Slide) -> int:
    assert isinstance(slide.tap.extent, int)
    return slide.tap.extent


def _separated(body: Apply, found: Sequence[Slide]) -> tuple[Scalar, Scalar] | None:
    """(the factor that reads positions, the one that reads taps)."""
    positions, taps, moving = ({getattr(s, name) for s in found} for name in ("position", "tap", "moving"))
    for image, weight in (body.args, body.args[::-1]):
        read, weighed = _atoms(image), _atoms(weight)
        if positions <= read and not read & (taps | moving) and not weighed & (positions | moving):
            return image, weight
    return None


def _geometry(kernel: LoopKernel, channel: LoopVar, found: Sequence[Slide]) -> Geometry | None:
    """The band is along the axis with the smallest steps in memory."""
    order = {kernel.parallel[number]: at for at, number in enumerate(by_stride(kernel, channel))}
    *outer, band = sorted(found, key=lambda slide: order[slide.moving])
    if not outer:
        return Geometry(band, band, (), DEPTH) if band.stride == 1 else None
    geometry = Geometry(band, outer[-1], tuple(outer[:-1]), RESULTS)
    return geometry if geometry.needed <= DEPTH else None


def _block(
    geometry: Geometry, channels: int, rest: Sequence[LoopVar], image: Scalar, abilities: Abilities, hints: SizeHints
) -> BandBlock | None:
    reached, stride = geometry.reached, geometry.stride
    extent = likely(geometry.extent(), hints)
    images = product([likely(v.extent, hints) for v in rest])
    across = 1 if geometry.is_flat else ceildiv(likely(geometry.band.moving.extent, hints), geometry.results)
    steps = prod(map(_taps, geometry.outer))
    return band_block(
        channels,
        extent,
        lambda walked: images * across * ceildiv(extent, walked),
        lambda walked: ((walked - 1) * stride + reached[-1] + 1) * steps,
        shapes_of(geometry.bands(), geometry.results, -(-(reached[-1] + 1) // stride)),
        1 if geometry.is_flat else tile_multiple(image, geometry.walked.position),
        abilities.processors,
    )


def _passed(geometry: Geometry, block: BandBlock) -> list[LoopVar]:
    """The positions whose end a tile may pass."""
    if geometry.is_flat:
        return [geometry.band.position]
    sizes = ((geometry.walked, block.walked), (geometry.band, geometry.results))
    return [slide.position for slide, size in sizes if not is_whole(slide.moving.extent, size)]


def _rounded(stage: Stage) -> Stage:
    """The epilogue. If it only reads sums rounded to half precision, it reads them in that type, which takes half of the shared
    memory."""
    nodes = [node for write in stage.writes for node in walk(write.value)]
    readers = [node for node in nodes if any(isinstance(child, Reduced) for child in children(node))]
    kinds = {node.dtype if isinstance(node, Convert) else "" for node in readers}
    if any(isinstance(write.value, Reduced) for write in stage.writes) or len(kinds) != 1 or not kinds <= HALF:
        return stage
    (kind,) = kinds
    read = Rewriter(lambda dim: dim, lambda node: replace(node, dtype=kind) if isinstance(node, Reduced) else node)
    return replace(stage, writes=tuple(replace(w, value=read(w.value)) for w in stage.writes))


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
        self.position, self.result = LoopVar("p", DEPTH), LoopVar("o", self.geometry.results)
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
        outer = list(combinations(*(range(_taps(s)) for s in self.geometry.outer)))
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
        if not self.geometry.is_flat and not is_whole(self.geometry.band.moving.extent, self.geometry.results):
            at = storing.dim(self._index(self.geometry.band, 0))
            storing.axes["p"].mask = code.let(f"{at} < {storing.dim(band.extent)}", "written")
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
        column], with whole channels in each warp. A thread has adjacent channels, 16 bytes."""
        block = self.block
        threads = block.channels // VECTOR
        for name, length in (("LOADED", DEPTH), ("STORED", self.geometry.results)):
            along = min(length, 32 // threads)
            down = 32 // threads // along
            tiles = min(block.warps, TILES // down)
            shape = f"[{down}, {along}, {threads}], [{tiles}, {block.warps // tiles}, 1], [2, 1, 0]"
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
        length = DEPTH if name == "LOADED" else self.geometry.results
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
        matrices = {key: self._laid(band, "2, 0, 1", "RIGHT") for key, band in bands.items()}
        totals = [
            code.let(f"tl.full([{block.channels}, {TILES}, {self.geometry.results}], 0.0, tl.float32, SUMS)", "total")
            for _ in range(block.walked)
        ]
        ends = {n: step for step in self.steps for n, _ in self._users(step)}
        for n in range(block.walked):
            if n not in ends:  # no position under its windows exists
                self._store(storing, n, totals[n])
        steps = list(self.steps.items())
        for number, (step, _) in enumerate(steps):
            if number + AHEAD < len(steps):
                following, image = steps[number + AHEAD]
                loaded[following] = self._block_of(loading, image)
            left = self._laid(loaded.pop(step), "2, 0, 1", "LEFT")
            for n, matrix in self._users(step):
                right = matrices[step[1], matrix]
                code.line(f"{totals[n]} = mma_v2({left}, {right}, {totals[n]})")
            for n, _ in self._users(step):
                if ends[n] == step:
                    self._store(storing, n, totals[n])

    def _laid(self, value: str, axes: str, layout: str) -> str:
        return self.code.let(f"tl.convert_layout(tl.permute({value}, ({axes})), {layout})", "m")

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
        row, column = self._arange("STORED", DEPTH, 0), self._arange("STORED", geometry.results, 1)
        printer.axes |= {"x": Axis(row), "p": Axis(column)}
        self._channels(printer, "STORED")
        band, outer = geometry.band, list(combinations(*(range(_taps(s)) for s in geometry.outer)))
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
        dilation, taps = self.geometry.band.dilation, _taps(self.geometry.band)
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

    def _store(self, printer: InstancePrinter, step: int, total: str) -> None:
        """The epilogue of a step of results."""
        code, geometry = self.code, self.geometry
        stage, moving = self.kernel.stages[1], (geometry.walked, geometry.band)
        values: dict[Atom, Dim] = {self.loops[s.moving]: self._index(s, step) for s in moving}
        kinds = {node.dtype for w in stage.writes for node in walk(w.value) if isinstance(node, Reduced)}
        half = next(iter(kinds & HALF), None)
        if half is not None:
            total = f"{total}.to({triton_type(half)})"
        printer.reduced[self.reduction.name] = (self._laid(total, "1, 2, 0", "STORED"), BLOCK)
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
