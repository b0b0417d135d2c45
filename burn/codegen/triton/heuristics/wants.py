"""What of the kernels a card would rather have described otherwise."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from burn.codegen.triton.heuristics.folds import summed_rows
from burn.codegen.triton.heuristics.products import product_parts
from burn.codegen.triton.heuristics.sizes import Usual
from burn.kernels.wants import Wants

WANTS = Wants(
    keep_rows=False,
    columns_apart=True,
    reduce_block=16384,
    reduce_rows=summed_rows,
    long_rows=65536,
    fold_columns=8192,
    fold_blocks=256,
    fold_rows=4,
    repeat_small=True,
    repeat_reads=True,
    sums_together=True,
    joined_parts=4,
    split_keys=128,
    split_rows=64,
    split_programs=132,
    scatter_rivals=65536,
    small_products=("float8_e4m3fn", "float8_e5m2"),
    costly_behind=1 << 21,
    parts=product_parts,
)
"""A row's values stay in registers, and strided columns are read as they are. A launch costs microseconds, in which thousands of
elements are converted, and a program alone needs ten of them for a row of 65,536 elements. An update that waits for its turn
takes 0.2 of them, in which 65,536 numbers are compared."""


def wants(usual: Usual, roles: bool) -> Wants:
    """For a program whose sizes usually are so, on a card whose warps may have roles or not."""
    parts, rows = partial(product_parts, usual=usual, roles=roles), partial(summed_rows, usual=usual)
    return replace(WANTS, parts=parts, reduce_rows=rows)
