"""Heuristics for loop kernels: the block of a program, and which part of a row is held or prefetched."""

from __future__ import annotations

import math
from dataclasses import dataclass

from burn.codegen.triton.heuristics.device import ENOUGH, WARPS
from burn.codegen.triton.heuristics.sizes import power_of_two, up_to
from burn.dialect.dims import Dim


@dataclass(frozen=True)
class LoopBlock:
    """The block of a loop kernel's program. rows: iterations of the parallel loops; columns: iterations of a stage's loops,
    or of the other axis of a transposed block; warps: those that share it."""

    rows: int
    columns: int = 1
    warps: int = WARPS


ELEMENTS = 1024
"""Elements of a block without inner loops: eight per thread, 16 bytes in half precision."""

FEW = 256
"""The same if a kernel has too few elements to keep the GPU busy."""

TILE = 2048
"""Elements of a block of rows and columns."""

HELD = 16384
"""Rows of up to this many elements are kept in registers, so that nothing is read twice."""

NEAR = 4
"""The largest stride, in elements, with which neighbours share memory transactions."""

APART = 8
"""The stride from which on they do not."""

TRANSPOSED_LENGTH = 8
"""Length of an axis from which on blocks are transposed in shared memory."""

TRANSPOSED_EDGE = 64
"""The edge of a transposed block: 128 bytes, a memory transaction, in half precision."""

CONSIDERABLE = 8
"""The part of a kernel's elements, one in so many, from which on loads that are contiguous along another axis determine the
block. A strided load moves 32 bytes for each element."""

MIXED_ROWS = 16
"""The fewest rows of a block if some loads are contiguous along rows: 32 bytes in half precision."""

SIDE = 64
"""Contiguous columns of a block whose rows are summed."""


def _warps(elements: int) -> int:
    """The warps of a block: 16 elements per thread, or fewer for at most four warps."""
    return max(1, min(4, elements // 64), min(16, elements // 512))


def _few(count: Dim, block: int, processors: int) -> bool:
    return isinstance(count, int) and count < ENOUGH * processors * block


def flat(count: Dim, bytes_: int, processors: int) -> LoopBlock:
    """bytes_: of the widest element."""
    if _few(count, ELEMENTS, processors):
        return LoopBlock(FEW)
    return LoopBlock(ELEMENTS * 2 if bytes_ == 1 else ELEMENTS)


def transposed_block(rows: Dim, columns: Dim, others: Dim, processors: int) -> LoopBlock:
    """The block of a kernel that transposes blocks in shared memory."""
    few = _few(rows * columns * others, TRANSPOSED_EDGE * TRANSPOSED_EDGE, processors)
    edge = TRANSPOSED_EDGE // 2 if few else TRANSPOSED_EDGE
    high, wide = (min(edge, power_of_two(d)) if isinstance(d, int) else edge for d in (rows, columns))
    most = edge * edge
    if high < edge:
        wide = up_to(columns, most // high)
    elif wide < edge:
        high = up_to(rows, most // wide)
    return LoopBlock(wide, high, _warps(high * wide))


def held(length: Dim, transposed: bool, shared: bool, mixed: bool = False) -> bool:
    """True if whole rows are kept in registers. shared: more than one stage iterates over them; transposed, mixed: see
    `blocks.Layout`."""
    if not isinstance(length, int) or length < 1:
        return False
    if transposed:
        return power_of_two(length) <= (HELD // 16 if shared else 2 * TILE // SIDE)
    padded = power_of_two(length)
    if mixed:
        return padded <= 2 * (HELD if shared else TILE) // MIXED_ROWS
    return length <= TILE or (padded <= HELD and (shared or padded * 3 <= length * 4))


SHORT_ROW = 16
"""Rows of up to this many elements are processed step by step; sizes up to this are constants in the text
(`parametrize`)."""


def is_short_row(length: Dim) -> bool:
    """True if a row has few elements (those of a window). The elements of neighbouring rows are then loaded in long
    contiguous runs."""
    return isinstance(length, int) and 1 < length <= SHORT_ROW


def rows_and_columns(
    rows: Dim,
    length: Dim,
    transposed: bool,
    shared: bool,
    processors: int,
    expected: Dim | None = None,
    mixed: bool = False,
) -> LoopBlock:
    """rows: iterations of the parallel loops; length: the longest row's; expected: its likely value if it is symbolic. Blocks
    of far more columns would be mostly masked. transposed, mixed: see `blocks.Layout`."""
    most_columns = power_of_two(max(1, expected)) if isinstance(expected, int) else HELD
    whole = power_of_two(length) if isinstance(length, int) and held(length, transposed, shared, mixed) else 0
    if transposed:
        wide = up_to(rows, SIDE)
        while wide > 16 and (wide * whole > HELD // 2 or _few(rows, wide, processors)):
            wide //= 2
        columns = whole or min(most_columns, up_to(length, (4 if _few(rows, wide, processors) else 2) * TILE // wide))
        if not whole and columns < TILE // SIDE // 2:  # as many elements as in a block of long rows
            wide = up_to(rows, TILE // 2 // columns)
            while wide > SIDE and _few(rows, wide, processors):
                wide //= 2
        return LoopBlock(wide, columns, _warps(wide * columns))
    columns = whole or min(most_columns, up_to(length, TILE * 2 if _few(rows, 1, processors) else TILE))
    least = 1
    if mixed:
        least = MIXED_ROWS // 2 if _few(rows, MIXED_ROWS, processors) else MIXED_ROWS
        least = min(least, HELD // columns) if whole else least
        columns = whole or min(columns, TILE // least)
    most = max(least, TILE // columns)
    while most > least and most * columns > FEW and _few(rows, most, processors):
        most //= 2
    block = up_to(rows, most)
    return LoopBlock(block, columns, _warps(block * columns))


BOUNDED = 1024
"""Rows of at most so many elements, whose lengths are read from data, are likely as long."""


def ragged(rows: Dim, transposed: bool, processors: int, longest: Dim, mean: float | None) -> LoopBlock:
    """The block for rows whose lengths are read from data: at most `longest`, and on average `mean` if that is known. A long row
    takes many steps."""
    wide, columns = (256, 8) if transposed else (64, 32)
    if not (isinstance(longest, int) and longest <= BOUNDED):
        columns = min(columns, power_of_two(math.ceil(mean)) if mean is not None else columns // 4 * 2)
        wide = min(TILE // 4, TILE // 2 // columns)
    while wide > 16 and _few(rows, wide, processors):
        wide //= 2
    return LoopBlock(wide, columns, _warps(wide * columns))


STEPS = 4
"""Blocks of a reduced row that are loaded at once."""

WAITING = 32768
"""The most bytes of shared memory for them: room for six programs per processor."""


def ahead(bytes_: int) -> int:
    """The number of blocks of `bytes_` bytes that are loaded at once."""
    return min(STEPS, WAITING // max(1, bytes_))


SEQUENTIAL_ROWS = 128
"""Rows of a block whose elements are processed one after another."""
