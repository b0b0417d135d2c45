"""Gradients of depthwise convolutions' weights in half precision, by tensor cores. `gradient_of` is the entry point;
`depthwise_gradient_code.py` prints them.

A tile is eight adjacent results of a channel, and the 16 positions that their windows read. Summed over tiles, positions times
results are a matrix. Its diagonals add up to taps: the element of position p and result r belongs to the tap at distance p - r.
This is the transpose of a convolution as a banded matrix (`banded.py`). A program has 16 tiles, the depth of an instruction, and
a block of channels. All tiles walk along another axis of the image. A step copies a row of positions and one of results to
shared memory. It multiplies the positions by the results of each step whose windows reach them. So each tap along this axis has a
matrix of sums in registers. In one dimension a step has 16 results, and a matrix belongs to a distance in steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.bands import HALF, Bands, atoms_of, factors_of, reads_indices, taps_of
from burn.codegen.triton.heuristics.banded import DEPTH, RESULTS
from burn.codegen.triton.heuristics.depthwise_gradient import (
    LEAST_CHANNELS,
    VECTOR,
    GradientBlock,
    Work,
    gradient_block,
)
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely
from burn.codegen.triton.windows import bounded, only_reduction
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, estimate, product, terms
from burn.kernels.body import Apply, Const, ContractionKernel, Load, LoopKernel, Scalar, Where
from burn.kernels.rewrite import as_loops
from burn.kernels.sliding import Slide, slides


@dataclass(frozen=True)
class Operand:
    """A load, and the conditions without which it is zero."""

    load: Load
    ranges: tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True)
class Windows(Bands):
    """The axes of windows. outer: slides whose taps are programs of their own. phases: the distance of two rows of a tile's walk,
    if taps along the walked axis are apart."""

    phases: int = 1

    @property
    def reached(self) -> tuple[int, ...]:
        """For each matrix of sums the row of positions that it reads, counted from a step's first one."""
        if self.is_flat:
            return tuple(range(-(-(self.results - 1 + self.span) // DEPTH)))
        return tuple(i * self.walked.dilation // self.phases for i in range(taps_of(self.walked)))

    @property
    def held(self) -> int:
        """Steps whose results are multiplied by a row of positions, or lie between those."""
        return self.reached[-1] // self.stride + 1

    def steps(self) -> Dim:
        """Steps of results along the walked axis."""
        return ceildiv(self.walked.moving.extent, self.results if self.is_flat else self.phases)


@dataclass(frozen=True)
class DepthwiseGradient:
    """A kernel whose reduction multiplies an image under windows by a cotangent. channel: the parallel loop along which the image
    is contiguous. The cotangent is contiguous along it or, if `results_first`, along the band. shares: parallel loops over the
    programs that divide the tiles; single: further loops, each with one index in a program; tiled: the reduction's loops that
    number tiles, except those of the windows."""

    kernel: LoopKernel
    windows: Windows
    channel: LoopVar
    shares: tuple[LoopVar, ...]
    single: tuple[LoopVar, ...]
    tiled: tuple[LoopVar, ...]
    block: GradientBlock
    results_first: bool


def depth_shares(kernel: ContractionKernel, abilities: Abilities, hints: SizeHints = UNKNOWN) -> int:
    """The number of shares into which the kernel of such a gradient divides its depth (`Preferences.depth_shares`); 0 for other
    kernels."""
    found = gradient_of(kernel, abilities, hints)
    return 0 if found is None else found.block.shares


def gradient_of(
    kernel: ContractionKernel, abilities: Abilities, hints: SizeHints = UNKNOWN
) -> DepthwiseGradient | None:
    """The gradient that a contraction is. None if it is no gradient of a depthwise convolution's weight whose operands are stored
    channels-last in half precision. None as well if a window is wider than a matrix instruction, or channels are too few."""
    if not (abilities.fragments and abilities.banded) or not kernel.batch or not kernel.is_plain:
        return None
    loops = as_loops(replace(kernel, shares=()))
    loops = replace(loops, parallel=(*kernel.shares, *loops.parallel))
    reduction = only_reduction(loops)
    found_factors = None if reduction is None or reads_indices(loops) else factors_of(reduction)
    if reduction is None or found_factors is None:
        return None
    body, found = slides(Apply("float32", "mul", found_factors), loops.stages[0].loops, loops.parallel)
    assert isinstance(body, Apply)
    separated = _separated(body, found) if found else None
    if separated is None:
        return None
    image, cotangent = separated
    windows = _windows(cotangent.load.offset, found)
    channel = _channel(loops, image.load.offset)
    if windows is None or channel is None:
        return None
    results_first = _is_aligned(cotangent.load.offset, windows.band.moving) and _is_in_blocks(windows)
    if not results_first and not _is_aligned(cotangent.load.offset, channel):
        return None
    others = {channel, windows.band.tap, windows.walked.tap, *kernel.shares}
    single = tuple(v for v in loops.parallel if v not in others)
    moving = {windows.band.moving, windows.walked.moving}
    tiled = tuple(v for v in loops.stages[0].loops if v not in moving)
    block = _block(windows, channel, single, tiled, abilities, hints)
    if block is None:
        return None
    along = dict.fromkeys((windows.walked, windows.band))
    factors = tuple(
        bounded(scalar(each), [getattr(slide, name) for slide in along])
        for each, name in ((image, "position"), (cotangent, "moving"))
    )
    multiplied = Apply("float32", "mul", factors)
    first = replace(loops.stages[0], reductions=(replace(reduction, body=multiplied),))
    made = replace(loops, stages=(first, loops.stages[1]))
    return DepthwiseGradient(made, windows, channel, kernel.shares, single, tiled, block, results_first)


def operand(node: Scalar) -> Operand | None:
    """A factor that is a load in half precision, zero outside of some ranges."""
    ranges: tuple[tuple[Dim, Dim], ...] = ()
    while isinstance(node, Where) and isinstance(node.otherwise, Const) and node.otherwise.value == 0:
        ranges, node = (*ranges, *node.ranges), node.then
    return Operand(node, ranges) if isinstance(node, Load) and node.dtype in HALF else None


def scalar(operand: Operand) -> Scalar:
    """The factor that an operand is."""
    load = operand.load
    return Where(load.dtype, operand.ranges, load, Const(load.dtype, 0)) if operand.ranges else load


def _separated(body: Apply, found: Sequence[Slide]) -> tuple[Operand, Operand] | None:
    """(the factor that reads positions, the one that reads the results' loops), if both are loads."""
    positions, taps, moving = ({getattr(s, name) for s in found} for name in ("position", "tap", "moving"))
    for first, second in (body.args, body.args[::-1]):
        read, weighed = atoms_of(first), atoms_of(second)
        if positions <= read and not read & (taps | moving) and moving <= weighed and not weighed & (positions | taps):
            image, cotangent = operand(first), operand(second)
            return None if image is None or cotangent is None else (image, cotangent)
    return None


def _windows(offset: Dim, found: Sequence[Slide]) -> Windows | None:
    """The band is along the axis with the smallest steps in the cotangent's memory."""

    def step(slide: Slide) -> int:
        each = coefficient(offset, slide.moving)
        return 0 if each is None else estimate(each)

    *outer, band = sorted(found, key=step, reverse=True)
    if not outer:
        return Windows(band, band, (), DEPTH) if band.stride == 1 else None
    walked = outer[-1]
    phases = walked.dilation if walked.stride == 1 else 1
    windows = Windows(band, walked, tuple(outer[:-1]), RESULTS, phases)
    return windows.fitted()


def _channel(kernel: LoopKernel, image: Dim) -> LoopVar | None:
    """The parallel loop along which an image is contiguous."""
    for loop in kernel.parallel:
        extent = loop.extent
        if isinstance(extent, int) and extent >= LEAST_CHANNELS and extent % VECTOR == 0 and _is_aligned(image, loop):
            return loop
    return None


def _is_aligned(offset: Dim, loop: LoopVar) -> bool:
    """True if elements along a loop are contiguous, and 16 bytes along it are always aligned."""
    return coefficient(offset, loop) == 1 and all(
        n % VECTOR == 0 for monomial, n in terms(offset) if monomial != (loop,)
    )


def _is_in_blocks(windows: Windows) -> bool:
    """True if a step's results are 16 bytes or multiples of these, also at the end of the axis."""
    extent = windows.band.moving.extent
    return windows.results % VECTOR == 0 and isinstance(extent, int) and extent % VECTOR == 0


def _block(
    windows: Windows,
    channel: LoopVar,
    single: Sequence[LoopVar],
    tiled: Sequence[LoopVar],
    abilities: Abilities,
    hints: SizeHints,
) -> GradientBlock | None:
    across = 1 if windows.is_flat else ceildiv(likely(windows.band.moving.extent, hints), windows.results)
    assert isinstance(channel.extent, int)
    work = Work(
        channels=channel.extent,
        others=estimate(product([likely(v.extent, hints) for v in single])),
        tiles=estimate(across * windows.phases * product([likely(v.extent, hints) for v in tiled])),
        steps=estimate(likely(windows.steps(), hints)),
        matrices=len(windows.reached),
        columns=windows.columns,
        stride=windows.stride,
        needed=windows.needed,
        held=windows.held,
        taps=taps_of(windows.band) * len(windows.reached),
    )
    return gradient_block(work, abilities.processors, abilities.memory)
