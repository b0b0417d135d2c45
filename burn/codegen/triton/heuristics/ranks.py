"""Heuristics for kernels that rank the elements of a block."""

from __future__ import annotations

from burn.kernels.preferences import Sorting

SORTING = Sorting(block=2048, whole=4096, digit=10)
"""A program has eight elements for each thread. Longer blocks need fewer counts of digits; of shorter ones more programs run at
once."""


def warps(block: int) -> int:
    return max(1, min(16, block // 256))
