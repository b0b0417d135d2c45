"""Facts that all GPUs share, as far as choices go."""

from __future__ import annotations

WARPS = 4
"""That share a program's block, where nothing else is said."""

STAGES = 3
"""Pipeline stages of a matmul: blocks being loaded at once."""

ENOUGH = 2
"""Programs for each processor that keep a GPU busy."""

LEAST = 16
"""The least rows, columns and depth of `tl.dot`."""
