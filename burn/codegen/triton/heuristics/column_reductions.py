"""Heuristics for column reductions: the rows of a program, and the rows loaded at a time."""

from __future__ import annotations

from math import ceil

from burn.codegen.triton.abilities import USUAL_ABILITIES
from burn.codegen.triton.heuristics.loops import SIDE, LoopBlock
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely, power_of_two, up_to
from burn.dialect.dims import TYPICAL, Dim, estimate

FOLDED = 2048
"""Elements of a block of rows in a column reduction: 16 for each thread of four warps. With the accumulators and the prefetched
rows they fill a thread's registers. Two such programs run on a processor: while one waits for the sums of its rows, the other
one loads. The gradient of a norm of 4,096 rows of 768 elements took 36.8 us with 4096 elements in eight warps, and 19.5 with
these."""

AHEAD = 64 * 1024
"""The most bytes of shared memory for prefetched rows, which leaves room for a second program and suits smaller GPUs.
"""


def column_block(length: int, block: Dim, bytes_: int) -> tuple[LoopBlock, int]:
    """The block of a program that iterates over `block` rows of `length` elements, and its pipeline stages. bytes_: bytes that
    are read for each element of a row."""
    columns = power_of_two(length)
    rows = up_to(block, max(1, FOLDED // columns))
    elements = rows * columns
    stages = max(n for n in (1, 2, 3) if (n - 1) * elements * bytes_ <= AHEAD)
    return LoopBlock(rows, columns, max(4, min(16, elements // 512))), stages


SUMMING = 1.5
"""The most programs per processor for column sums: a quarter of those that run at once, because a symbolic size may be
four times as large. Few programs with many rows are faster than many: each has a prologue and an epilogue, and their
results are summed."""

LONGEST, NAMED = 32, 8
"""The most steps of such a program, and the steps if the number of rows is symbolic."""

JOINED = 128
"""The number of blocks up to which more programs pay, for a known number of rows: their results are small compared with
their operands."""


def summed_rows(kept: int, rows: Dim, hints: SizeHints = UNKNOWN, processors: int = USUAL_ABILITIES.processors) -> int:
    """Rows of a block for column sums: a whole number of steps. A symbolic size counts as small: twice as many rows would
    need a second wave of programs, half as many would leave half of the GPU idle."""
    size = likely(rows, hints)
    blocks = max(1, int(SUMMING * processors) * SIDE // max(SIDE, kept))
    steps = ceil(estimate(size, TYPICAL // 2) / (blocks * SIDE))
    if not isinstance(size, int):
        return SIDE * min(NAMED, max(1, steps))
    if not isinstance(rows, int):
        steps = min(steps, max(ceil(steps / 4), ceil(size / (JOINED * SIDE))))
    return SIDE * min(LONGEST, max(1, steps))
