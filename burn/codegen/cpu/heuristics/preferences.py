"""Lowering preferences of CPUs."""

from __future__ import annotations

from functools import lru_cache, partial

from burn.codegen.cpu.heuristics.channels_first import stays_channels_first
from burn.codegen.cpu.heuristics.dot_products import reads_rows
from burn.codegen.cpu.heuristics.groups import groups_in_lanes, is_read_channels_first
from burn.codegen.cpu.heuristics.winograd import bytes_as_floats
from burn.codegen.cpu.target import Target
from burn.kernels.preferences import PhaseCosts, Preferences, SplitTaps

SPLIT_TAPS = SplitTaps(part=0.3, multiplications=1 << 20)
"""A million multiplications take ten microseconds or more in the vectors of a core, and a launch takes a few."""


STORED = 16
"""Multiplications of a vector that take as long as loading the first operands of a sum and storing its result."""

ADDED = 5
"""The same for adding a term to a result under a condition, as the sum of dilated phases does."""

ZEROS = 0.25
"""A wasted multiplication by zero must save more than it costs."""


@lru_cache
def preferences_of(target: Target) -> Preferences:
    """A row fits in the cache, and an exponential costs more than loading it. Strided columns are gathered element by
    element; a copy, made once, is cheaper than gathering for every panel. A matmul of channels-first images reads its columns
    in place; with many multiplications, panels of the weight are faster by more than two copies take. A block of 16,384
    elements takes some microseconds: worth a thread. There are many more heads than threads, and recomputing probabilities
    costs matmuls."""
    return Preferences(
        keep_rows=True,
        strided_columns=False,
        transposed_rows=reads_rows(target),
        reduce_block=16384,
        finite_masks=not target.exact,
        fused_gradients=True,
        concat_in_place=True,
        depthwise_bytes=True,
        bytes_as_floats=partial(bytes_as_floats, target=target),
        repeat_dequantised=True,
        split_taps=None if target.is_size_bound else SPLIT_TAPS,
        interleaved_phases=None if target.is_size_bound else _phase_costs(target),
        groups_in_lanes=partial(groups_in_lanes, target=target),
        grouped_images=partial(is_read_channels_first, target=target),
        channels_first=partial(stays_channels_first, target=target),
    )


def _phase_costs(target: Target) -> PhaseCosts:
    return PhaseCosts(target.lanes(4), STORED, ADDED, None if target.exact else ZEROS)
