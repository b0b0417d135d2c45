"""Bands: adjacent results of a channel, and the positions under their windows, as the operands of matrix instructions.

A depthwise convolution multiplies positions by a banded matrix of the taps (`banded.py`). The gradient of its weight multiplies
positions by results, and sums along the diagonals (`depthwise_gradient.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from burn.codegen.triton.functions import narrowed
from burn.codegen.triton.heuristics.banded import DEPTH, LEAST_RESULTS, RESULTS
from burn.dialect.dims import Atom, atoms
from burn.dialect.types import HALF_DTYPES
from burn.kernels.body import Apply, Fetched, LoopKernel, Reduction, Scalar, own_dims, walk
from burn.kernels.sliding import Slide

HALF = frozenset(HALF_DTYPES)

Kind = TypeVar("Kind", bound="Bands")


@dataclass(frozen=True)
class Bands:
    """The axes of windows. band: the slide along the results of a step; walked: the slide along which a tile walks, the band
    itself in one dimension; outer: further slides; results: of a step."""

    band: Slide
    walked: Slide
    outer: tuple[Slide, ...]
    results: int

    @property
    def is_flat(self) -> bool:
        return self.band == self.walked

    @property
    def columns(self) -> int:
        """The columns of a matrix: the results of a step, and more if fewer fit its positions."""
        return DEPTH if self.is_flat else RESULTS

    @property
    def span(self) -> int:
        """The positions under a window along the band."""
        return (taps_of(self.band) - 1) * self.band.dilation + 1

    @property
    def needed(self) -> int:
        """The positions of a step that windows read."""
        return DEPTH if self.is_flat else (self.results - 1) * self.band.stride + self.span

    @property
    def stride(self) -> int:
        """Steps of positions between two steps of results."""
        return 1 if self.is_flat else self.walked.stride

    def fitted(self: Kind) -> Kind | None:
        """The same with as many results as read `DEPTH` positions. None if these are too few."""
        results = min(RESULTS, (DEPTH - self.span) // self.band.stride + 1)
        return replace(self, results=results) if results >= LEAST_RESULTS else None


def taps_of(slide: Slide) -> int:
    assert isinstance(slide.tap.extent, int)
    return slide.tap.extent


def factors_of(reduction: Reduction) -> tuple[Scalar, Scalar] | None:
    """The factors of a sum in float32 of multiplied values in half precision."""
    match reduction:
        case Reduction(kind="sum", body=Apply(function="mul", args=(lhs, rhs))):
            found = narrowed((lhs, rhs), reduction.dtype)
            return None if found is None else (found[0], found[1])
    return None


def reads_indices(kernel: LoopKernel) -> bool:
    """True if results are read or written at indices from data."""
    nodes = [dim for s in kernel.stages for node in walk(*s.scalars) for dim in own_dims(node)]
    nodes += [w.offset for s in kernel.stages for w in s.writes]
    return any(isinstance(atom, Fetched) for dim in nodes for atom in atoms(dim))


def atoms_of(node: Scalar) -> set[Atom]:
    return {atom for part in walk(node) for dim in own_dims(part) for atom in atoms(dim)}
