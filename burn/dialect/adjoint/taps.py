"""Weight gradients of convolutions, tap by tap if much of their work is on padding.

A tap multiplies the outputs' cotangent with the elements that it reads, and padding contributes nothing. Of a kernel dilated by
12 on 16x16 pixels, the outer taps read a quarter of the elements along an axis. Each tap then gets those outputs alone for which
it is inside, which needs no padded copy of the image either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from burn.dialect.dims import Dim, estimate

SAVED = 0.3
"""Taps are computed apart along an axis if at least this part of its multiplications is saved."""

WORTH = 1 << 20
"""Taps are computed apart if at least this many multiplications are saved, which pays for further contractions."""

Run = tuple[int, int, int, int]
"""Neighbouring taps, the first and their number, that are inside for the same outputs, the first and their number."""


def runs(size: Dim, count: Dim, kernel: Dim, stride: int, dilation: int, low: Dim) -> list[Run]:
    """All taps along an axis of `size` elements and `count` outputs; none if a size has a name."""
    if not all(isinstance(d, int) for d in (size, count, kernel, low)):
        return []
    assert isinstance(size, int) and isinstance(count, int) and isinstance(kernel, int) and isinstance(low, int)

    def outputs(tap: int) -> tuple[int, int]:
        position = tap * dilation - low
        first = max(0, -(position // stride))
        last = min(count, -((position - size) // stride))
        return (first, last - first) if last > first else (0, 0)

    found: list[Run] = []
    for (first, number), taps in groupby(range(kernel), outputs):
        start = found[-1][0] + found[-1][1] if found else 0
        found.append((start, len(list(taps)), first, number))
    return found


def axis_apart(rows: Sequence[list[Run]], counts: Sequence[Dim], work: Dim) -> int | None:
    """The first axis whose taps are computed apart; None if there is none. rows: the taps of each axis. work: all
    multiplications."""
    for axis, (taps, count) in enumerate(zip(rows, counts, strict=True)):
        whole = sum(number for _, number, _, _ in taps) * (count if isinstance(count, int) else 0)
        left = sum(number * outputs for _, number, _, outputs in taps)
        if whole and (1 - left / whole) >= SAVED and (1 - left / whole) * estimate(work) >= WORTH:
            return axis
    return None
