"""GPU-specific lowering preferences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from burn.codegen.triton import depthwise_gradient
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.heuristics.column_reductions import summed_rows
from burn.codegen.triton.heuristics.fragments import NORMED_ROWS
from burn.codegen.triton.heuristics.ranks import SORTING
from burn.codegen.triton.heuristics.sizes import SizeHints, likely
from burn.codegen.triton.hopper import weight_gradient
from burn.codegen.triton.window_sums import split_sums
from burn.kernels.body import ContractionKernel
from burn.kernels.preferences import Preferences

PREFERENCES = Preferences(
    keep_rows=False,
    strided_columns=True,
    reduce_block=16384,
    reduce_rows=summed_rows,
    long_rows=65536,
    column_reduction_width=8192,
    column_reduction_blocks=256,
    column_reduction_rows=4,
    column_sums=6,  # on sm_90 the gradient of a norm takes 128 registers with 2 and 206 with 6; with 12 they spill.
    # Steps of four layers of BERT took 3.55 ms with 6, 3.60 with 2, 3.76 with 0; those of GPT with dropout 3.79, 3.76, 3.80
    recomputed_columns=2048,
    repeat_small=True,
    repeat_reads=True,
    fuse_reductions=True,
    concat_operands=4,
    concat_chain=12,
    concat_loads=64,
    concat_gradients=True,
    fused_gradient_keys=128,
    split_keys=128,
    split_rows=64,
    split_programs=USUAL_ABILITIES.processors,
    parallel_scatter=True,
    parallel_sort=True,
    sorting=SORTING,
    small_loops=1 << 16,
    foreach=256,
    foreach_bytes=1 << 23,
    small_dtypes=("float8_e4m3fn", "float8_e5m2"),
    widened_rows=64,
    separate_epilogue=1 << 21,
    sliding_windows=True,
    split_depth=split_sums,
    split_parts=1024,
    merged_groups=32,
)
"""A row's values stay in registers, and strided columns are read directly. A launch takes microseconds, enough to convert
thousands of elements; a single program takes ten for a row of 65,536 elements. A serialised update takes 0.2 microseconds. A
launch and its last programs take two microseconds or more, in which 8 MB are read or written. Updates in one launch take 4 to
6 % from a transformer's step on an H100. On it (float16, 4096x4096)
kernels that read weights of 8-bit floats took 13 us for 16 rows, 20 for 64 and 118 for 1,024; PyTorch's matmuls 9, 9, 47."""


def preferences(hints: SizeHints, abilities: Abilities) -> Preferences:
    """Preferences for a program with these size hints, on a GPU with these abilities."""
    return replace(
        PREFERENCES,
        split_depth=partial(split_sums, hints=hints, abilities=abilities),
        reduce_rows=partial(summed_rows, hints=hints, processors=abilities.processors),
        split_programs=abilities.processors,
        padded_windows=abilities.warp_specialised,
        depth_shares=partial(_depth_shares, hints=hints, abilities=abilities),
        likely=partial(likely, hints=hints),
        row_reductions=NORMED_ROWS if abilities.fragments else 0,
    )


def _depth_shares(kernel: ContractionKernel, hints: SizeHints, abilities: Abilities) -> int:
    if found := depthwise_gradient.depth_shares(kernel, abilities, hints):
        return found
    return weight_gradient.depth_shares(kernel, abilities.processors, hints) if abilities.warp_specialised else 0
