"""Small windows: which sums of them are written out, and how many places are summed at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim

WINDOW = 64
"""Places of a window up to which its lines are written out."""


def is_window(extents: Sequence[Dim]) -> bool:
    """Whether loops of so many iterations go through a small window."""
    numbers = [n for n in extents if isinstance(n, int)]
    return len(numbers) == len(extents) and max(numbers) <= 16 and prod(numbers) <= WINDOW


PICTURES = 7
"""What the sides of most networks' pictures are multiples of, from 224 down to 7."""


def places_abreast(extent: Dim, window: int, target: Target) -> int:
    """How many neighbouring places of a window's sums are formed at once: as many as leave registers for what is under them, and
    of these counts the one that has the fewest places past the end."""
    most = 8 if target.vector_registers >= 32 else 4
    least = most // 2
    if target.small or window == 1:
        return 1
    if not isinstance(extent, int):
        return min(most, PICTURES)
    return min(range(least, most + 1), key=lambda n: (-(-extent // n) * n, -n))
