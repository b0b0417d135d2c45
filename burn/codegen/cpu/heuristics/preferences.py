"""Lowering preferences of CPUs."""

from __future__ import annotations

from burn.kernels.preferences import Preferences

PREFERENCES = Preferences(
    keep_rows=True, strided_columns=False, reduce_block=16384, fused_gradients=True, concat_in_place=True
)
"""A row fits in the cache, and an exponential costs more than loading it. Strided columns are gathered element by
element; a copy, made once, is cheaper than gathering for every panel. A block of 16,384 elements takes some
microseconds: worth a thread. There are many more heads than threads, and recomputing probabilities costs matmuls."""
