"""Heuristics for regions of convolutions of one tap: channels-first, or channels-last after copies."""

from __future__ import annotations

from burn.codegen.cpu.target import Target
from burn.dialect.dims import estimate
from burn.dialect.types import DTYPES
from burn.kernels.preferences import PointwiseRegion


def stays_channels_first(region: PointwiseRegion, target: Target) -> bool:
    """True if the copies to channels-last and back would take longer than they save.

    A matmul of a channels-first image reads a cache line of each channel for a panel: as many streams as channels, which no
    hardware prefetcher follows. Images between convolutions that are not in the second-level cache then take longer than
    channels-last ones, which are one stream. If channels do not fill vectors, channels-last results have partial vectors,
    which take as much time as that."""
    costs, size = target.costs, DTYPES[region.dtype].size
    if target.is_size_bound or not costs.channels_first:
        return False
    lanes = target.lanes(size)
    whole = all(isinstance(n, int) and n % lanes == 0 for n in region.outputs)
    held = estimate(region.pixels) * max(map(estimate, region.outputs)) * size <= costs.l2_block
    moved = costs.channels_first_moved * region.between if whole and not held else 0
    return region.multiplications + moved <= costs.channels_first * region.copied
