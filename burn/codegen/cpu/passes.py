"""The pass pipelines of CPUs: the target decides which memory layouts pay."""

from __future__ import annotations

from burn.codegen.cpu.heuristics import scatters, winograd
from burn.codegen.cpu.target import Target
from burn.codegen.pipeline import Pipeline, pipeline
from burn.dialect.attention import DEEP

GRADIENTS = ("attention_forward", "attention_backward", DEEP)
"""Composites with CPU kernels, besides those of every device, and a feature of attention."""

TREES = ("tree_leaves",)
"""Composites that the runtime's library computes. Programs that must be small run without it."""


ORDERED = f"order_scatters{{narrow={scatters.NARROW}}}"


def _with(layouts: str, small: bool = False, ordered_sums: bool = False) -> Pipeline:
    composites = GRADIENTS if small else GRADIENTS + TREES
    layouts = f"loop_slices,partial_sort,{layouts}"
    return pipeline(
        layouts,
        composites,
        narrow_weights=True,
        first="interleave_phases",
        ordered_sums=ordered_sums,
        derivatives=True,
        folded="" if ordered_sums else ORDERED,
    )


PIPELINE = _with("winograd,grouped_images,pack")
"""Convolutions are computed in the Winograd domain; the rhs of matmuls is packed in panels. Grouped ones between the two may read
channels-first images. `winograd` has its own costs, which
are those of tile registers."""

PLAIN = _with("pack", ordered_sums=True)
"""Sums are formed in the order of the program."""

SIZE_BOUND = _with("winograd{constants=false},pack{borders=false}", small=True, ordered_sums=True)
"""Size-optimised programs: neither constants nor memory may grow."""

COMPACT = _with("pack{borders=false}", small=True, ordered_sums=True)
"""Memory may not grow, and either code is short or sums are formed in the order of the program."""


def passes_of(target: Target) -> Pipeline:
    """The pipeline for a CPU."""
    is_size_bound = target.is_size_bound
    if target.compact or target.exact:
        return COMPACT if is_size_bound else PLAIN
    if is_size_bound and not winograd.is_narrow(target):
        return SIZE_BOUND
    costs = winograd.options(target)
    if is_size_bound:  # vectors are short, and constants may grow a little
        return _with(
            f"winograd{{{costs} largest={winograd.FETCHED}}},pack{{borders=false}}", small=True, ordered_sums=True
        )
    return _with(f"winograd{{{costs}}},grouped_images,pack") if costs else PIPELINE
