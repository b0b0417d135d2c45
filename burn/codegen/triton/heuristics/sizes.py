"""What sizes count as where a choice is made, and what a block makes of them."""

from __future__ import annotations

from burn.dialect.dims import Dim

TYPICAL = 64
"""What a size's names count as."""


def power_of_two(number: int) -> int:
    """The next one upwards."""
    return 1 << max(0, number - 1).bit_length()


def up_to(size: Dim, most: int) -> int:
    """The side of a block along an axis of such a size."""
    return min(most, power_of_two(size)) if isinstance(size, int) else most
