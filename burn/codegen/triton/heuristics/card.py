"""Facts that all GPUs share, as far as choices go."""

from __future__ import annotations

WARPS = 4
"""That share a program's block, where nothing else is said."""

STAGES = 3
"""Blocks of a product that are on their way from memory at once."""

ENOUGH = 2
"""Programs for each processor that keep a GPU busy."""

LEAST = 16
"""Rows, columns and depth of a block product at least."""
