"""Values of sizes for heuristics, and rounding to block sizes."""

from __future__ import annotations

from collections.abc import Mapping

from burn.dialect.dims import Atom, Dim, Symbol, substitute

Usual = Mapping[Atom, Dim]
"""Hints for named sizes (`Program.usual`)."""

UNKNOWN: Usual = {}


def usual_sizes(sizes: Mapping[str, int]) -> Usual:
    return {Symbol(name): size for name, size in sizes.items()}


def likely(size: Dim, usual: Usual) -> Dim:
    """The usual value of a size, if known."""
    return substitute(size, usual) if usual else size


def power_of_two(number: int) -> int:
    """The next one upwards."""
    return 1 << max(0, number - 1).bit_length()


def up_to(size: Dim, most: int) -> int:
    """The side of a block along an axis of such a size."""
    return min(most, power_of_two(size)) if isinstance(size, int) else most
