"""Constants of heuristics that hold for all GPUs."""

from __future__ import annotations

WARPS = 4
"""Warps of a program, by default."""

STAGES = 3
"""Pipeline stages of a matmul: blocks being loaded at once."""

ENOUGH = 2
"""Programs for each processor that keep a GPU busy."""

LEAST = 16
"""The least rows, columns and depth of `tl.dot`."""
