"""Sums down the rows: how many rows a program goes through, and how."""

from __future__ import annotations

from math import ceil

from burn.codegen.triton.abilities import USUAL_ABILITIES
from burn.codegen.triton.heuristics.places import SIDE, Places
from burn.codegen.triton.heuristics.sizes import UNKNOWN, Usual, likely, power_of_two, up_to
from burn.dialect.dims import TYPICAL, Dim, estimate

FOLDED = 4096
"""Elements of a block of rows that are folded: with what they come to, and what is on its way, they fill a thread's registers."""

AHEAD = 64 * 1024
"""Bytes of shared memory, at most, in which the next rows wait: beside those of another program, and on smaller cards."""


def folded(length: int, block: Dim, bytes_: int) -> tuple[Places, int]:
    """Of rows that are gone through one after another, in blocks of `block`; and of how many steps what they read is on its
    way at once. bytes_: that are read for each element of a row."""
    columns = power_of_two(length)
    rows = up_to(block, max(1, FOLDED // columns))
    elements = rows * columns
    stages = max(n for n in (1, 2, 3) if (n - 1) * elements * bytes_ <= AHEAD)
    return Places(rows, columns, max(4, min(16, elements // 512))), stages


SUMMING = 1.5
"""Programs for each processor that sum columns, at most: a quarter of what run at once, as a size that has a name may well be
four times as large. Few that go through many rows are faster than many: each has a beginning and an end of its own, and their
results are summed."""

LONGEST, NAMED = 32, 8
"""Steps of such a program at most, and where it is not known how many rows there are."""

JOINED = 128
"""Blocks up to which more of them than that are worth it, where it is known how many rows there are: what they come to is little
beside what they read."""


def summed_rows(kept: int, rows: Dim, usual: Usual = UNKNOWN, processors: int = USUAL_ABILITIES.processors) -> int:
    """Rows of a block of columns' sums: a whole number of steps. Names count as few, and the programs of many rows are many:
    twice the rows are a second wave, half of them half a card."""
    size = likely(rows, usual)
    blocks = max(1, int(SUMMING * processors) * SIDE // max(SIDE, kept))
    steps = ceil(estimate(size, TYPICAL // 2) / (blocks * SIDE))
    if not isinstance(size, int):
        return SIDE * min(NAMED, max(1, steps))
    if not isinstance(rows, int):
        steps = min(steps, max(ceil(steps / 4), ceil(size / (JOINED * SIDE))))
    return SIDE * min(LONGEST, max(1, steps))
