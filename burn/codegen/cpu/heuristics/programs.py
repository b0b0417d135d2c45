"""What a whole program says about the code that it gets."""

from __future__ import annotations

from burn.kernels.parameters import SMALL

BRIEF = 16384
"""Bytes that a program's kernels touch and operations of its products, in all: about a microsecond. See brief.py."""

FEW_KERNELS = 12
"""Groups of a program up to which hardly two share a kernel, so that numbers in its code are shorter than arguments."""


def compact_numbers(groups: int) -> int:
    """The largest number that stays in the code of a small program; 1, a stride, where layers are to share kernels."""
    return SMALL if groups <= FEW_KERNELS else 1
