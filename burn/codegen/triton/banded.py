"""Depthwise convolutions in half precision as matmuls with banded matrices. `banded_of` is the entry point;
`banded_code.py` prints them.

For one channel, adjacent results along an axis are the positions under their windows times a banded matrix of the taps. A program
has 16 tiles and a block of channels, and a warp has whole channels. A tile walks along another axis of the image: a step loads
its positions once, for the results of all windows that they belong to, each through its own matrix. In one dimension a tile walks
along the only axis, in steps of as many positions as results; a window then reaches over several steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.bands import HALF, Bands, atoms_of, factors_of, reads_indices, taps_of
from burn.codegen.triton.heuristics.banded import (
    DEPTH,
    LEAST_CHANNELS,
    LEAST_TAPS,
    RESULTS,
    BandBlock,
    band_block,
    shapes_of,
)
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely
from burn.codegen.triton.windows import bounded, by_stride, contiguous, is_whole, only_reduction, tile_multiple
from burn.dialect.dims import Dim, LoopVar, ceildiv, product
from burn.kernels.body import (
    Apply,
    Convert,
    LoopKernel,
    Reduced,
    Rewriter,
    Scalar,
    Stage,
    children,
    walk,
)
from burn.kernels.sliding import Slide, slides


@dataclass(frozen=True)
class Geometry(Bands):
    """How results are matmuls. outer: slides whose taps are matrices of their own."""

    @property
    def reached(self) -> tuple[int, ...]:
        """The steps of positions that a step of results reads, from its own on: one for each matrix."""
        if self.is_flat:
            return tuple(range(-(-(self.results - 1 + self.span) // DEPTH)))
        return tuple(i * self.walked.dilation for i in range(taps_of(self.walked)))

    def extent(self) -> Dim:
        """Steps of results."""
        return ceildiv(self.walked.moving.extent, self.results) if self.is_flat else self.walked.moving.extent

    def bands(self) -> int:
        return len(self.reached) * prod(map(taps_of, self.outer))


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
    if reduction is None or reads_indices(kernel):
        return None
    factors = factors_of(reduction)
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
    own = [v for v in kernel.parallel if v in atoms_of(weight)]
    if own != [contiguous(kernel, kernel.parallel)] or not isinstance(own[0].extent, int):
        return None
    geometry = _geometry(kernel, own[0], found)
    if geometry is None or prod(map(taps_of, found)) < LEAST_TAPS or own[0].extent < LEAST_CHANNELS:
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


def _separated(body: Apply, found: Sequence[Slide]) -> tuple[Scalar, Scalar] | None:
    """(the factor that reads positions, the one that reads taps)."""
    positions, taps, moving = ({getattr(s, name) for s in found} for name in ("position", "tap", "moving"))
    for image, weight in (body.args, body.args[::-1]):
        read, weighed = atoms_of(image), atoms_of(weight)
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
    return geometry.fitted()


def _block(
    geometry: Geometry, channels: int, rest: Sequence[LoopVar], image: Scalar, abilities: Abilities, hints: SizeHints
) -> BandBlock | None:
    reached, stride = geometry.reached, geometry.stride
    extent = likely(geometry.extent(), hints)
    images = product([likely(v.extent, hints) for v in rest])
    across = 1 if geometry.is_flat else ceildiv(likely(geometry.band.moving.extent, hints), geometry.results)
    steps = prod(map(taps_of, geometry.outer))
    return band_block(
        channels,
        extent,
        lambda walked: images * across * ceildiv(extent, walked),
        lambda walked: ((walked - 1) * stride + reached[-1] + 1) * steps,
        shapes_of(geometry.bands(), geometry.columns, -(-(reached[-1] + 1) // stride)),
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
