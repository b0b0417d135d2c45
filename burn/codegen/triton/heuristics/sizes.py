"""Values of sizes for heuristics, and rounding to block sizes."""

from __future__ import annotations

from collections.abc import Mapping

from burn.dialect.dims import Atom, Dim, Symbol, at_most, estimate, substitute

SizeHints = Mapping[Atom, Dim]
"""Hints for named sizes (`Program.size_hints`)."""

UNKNOWN: SizeHints = {}


def hinted_sizes(sizes: Mapping[str, int]) -> SizeHints:
    return {Symbol(name): size for name, size in sizes.items()}


def likely(size: Dim, hints: SizeHints) -> Dim:
    """The hinted value of a size, if there is one."""
    return substitute(size, hints) if hints else size


SMALL_BOUNDS = (8, 16, 32, 64, 128)
"""Upper bounds of a length that are worth a block of their own."""


def expected_length(length: Dim, hints: SizeHints) -> Dim:
    """The likely value of a symbolic length: by the hints, or a small upper bound. A length such as ceildiv(n, 32768) is likely
    small."""
    expected = likely(length, hints)
    if isinstance(expected, int):
        return expected
    if estimate(expected) <= SMALL_BOUNDS[0]:
        return SMALL_BOUNDS[0]
    return next((b for b in SMALL_BOUNDS if at_most(length, b)), expected)


def power_of_two(number: int) -> int:
    """The next power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


def up_to(size: Dim, most: int) -> int:
    """The length of a block along an axis of this size: a power of two up to `most`."""
    return min(most, power_of_two(size)) if isinstance(size, int) else most
