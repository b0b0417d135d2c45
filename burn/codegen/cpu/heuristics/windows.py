"""Heuristics for small windows: unrolling, and the number of windows computed together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim

WINDOW = 64
"""The most elements of a window whose loops are unrolled."""


def is_window(extents: Sequence[Dim]) -> bool:
    """True if loops of these extents iterate over a small window."""
    numbers = [n for n in extents if isinstance(n, int)]
    return len(numbers) == len(extents) and max(numbers) <= 16 and prod(numbers) <= WINDOW


PICTURES = 7
"""A divisor of the height and width of most networks' images, from 224 down to 7."""


def windows_together(extent: Dim, window: int, target: Target) -> int:
    """The number of neighbouring windows computed together: as many as leave registers for their operands, and among
    these numbers the one with the fewest windows past the end."""
    most = 8 if target.vector_registers >= 32 else 4
    least = most // 2
    if target.small or window == 1:
        return 1
    if not isinstance(extent, int):
        return min(most, PICTURES)
    return min(range(least, most + 1), key=lambda n: (-(-extent // n) * n, -n))
