"""Heuristics for sliding windows: the tile of results that a thread computes, and the loops over taps that are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.codegen.triton.heuristics.device import ENOUGH, WARPS
from burn.codegen.triton.heuristics.sizes import up_to
from burn.dialect.dims import Dim, estimate


@dataclass(frozen=True)
class WindowBlock:
    """A program's block. tile: adjacent results of one thread along the sliding loop; elements: neighbours along the contiguous
    loop that a thread computes; warps: of the program; unrolled: sliding or inner loops, counted from the innermost one,
    whose taps are unrolled; registers: of a thread, 0 for as many as the compiler takes."""

    tile: int
    elements: int
    warps: int
    unrolled: int
    registers: int = 0

    @property
    def rows(self) -> int:
        return self.elements * 32 * self.warps


TILE = 8
"""The most adjacent results of a thread: each loaded element then serves most of the windows that it belongs to."""

LONG = 16
"""The same for a thread whose loads have one element, as in images that are channels-first. Windows of 3 to 7 taps took 12 to
22 % less time than with eight results."""

NARROW = 3
"""Taps along the sliding loop up to which half of `TILE` or `LONG` is enough: longer tiles save few loads."""

ACCUMULATORS = 32
"""Accumulators of a thread, so that loaded elements and weights also have registers."""

WORD = 8
"""Bytes of a thread's load. Longer ones need more registers than they save instructions."""

STEPS = 256
"""The most multiplications in the text of a kernel, for each element of a thread. Further taps are a loop."""

MOST_TAPS = 1024
"""The most taps of a window that slides: longer ones are reductions."""


def tile_of(extent: Dim, most: int, multiple: int = 1) -> int:
    """The number of adjacent results, a multiple of `multiple` up to `most`, that leaves the fewest threads idle at the end of a
    loop."""
    tiles = range(multiple, max(most, multiple) + 1, multiple)
    if not isinstance(extent, int):
        return max(t for t in tiles if t <= max(multiple, min(most, TILE // 2)))
    return min(tiles, key=lambda tile: (-(-extent // tile) * tile * (1 + 1 / tile), -tile))


def window_block(
    results: Dim,
    extent: Dim,
    taps: Sequence[int],
    bytes_: int,
    processors: int,
    contiguous: bool,
    multiple: int = 1,
) -> WindowBlock:
    """results: of the kernel; extent: of the loop that is tiled; taps: of each loop of a window, the innermost one last;
    bytes_: of the widest element that is read; contiguous: neighbours along the fastest loop are loaded at aligned
    addresses; multiple: of the tile."""
    elements = max(1, WORD // bytes_) if contiguous else 1
    most = TILE if contiguous else LONG
    most = most if taps[-1] > NARROW else most // 2
    tile = tile_of(extent, min(most, ACCUMULATORS // elements), multiple)
    count = estimate(results, 1024)
    while count < ENOUGH * processors * tile * elements * 32 * WARPS and (tile > multiple or elements > 2):
        if tile > multiple and tile >= elements:
            tile = tile_of(extent, tile // 2, multiple)
        elif elements > 2:
            elements //= 2
        else:
            break
    steps, unrolled = tile, 0
    for size in reversed(taps):
        if unrolled and steps * size > STEPS:
            break
        steps *= size
        unrolled += 1
    return WindowBlock(tile, elements, WARPS, unrolled)


@dataclass(frozen=True)
class SumBlock:
    """A program's block for sums that slide. tile: adjacent positions of a thread; rows, columns: tiles and contiguous
    results of a program; warps: that share them; unrolled: loops over taps, counted from the innermost one, with
    accumulators for each tap; registers: of a thread, 0 for as many as the compiler takes."""

    tile: int
    rows: int
    columns: int
    warps: int
    unrolled: int
    registers: int = 0


SUMS = 36
"""The most accumulators of a thread for sums that slide, unless one loop alone has more taps."""

MOST_SUMS = 64
"""The most taps of one loop: each is an accumulator."""

LANES = 32
"""The least contiguous results of a program: narrower rows would use a part of each memory transaction."""

COLUMNS = 64
"""The most contiguous results of a program for sums that slide: the tiles of positions share the rest of the threads."""

REGISTERS = ((28, 96), (SUMS, 128))
"""The registers of a thread for up to so many accumulators. Without a bound the compiler loads a whole tile ahead and takes so
many registers that few threads run at once."""


def sum_block(extent: Dim, columns: Dim | None, taps: Sequence[int], bytes_: int) -> SumBlock | None:
    """extent: of the loop that is tiled; columns: of the contiguous results, if any; taps: of each loop of a window, the
    innermost one last; bytes_: of the widest element that is read. None if one loop's taps are too many."""
    if taps[-1] > MOST_SUMS:
        return None
    elements = 1 if columns is None else max(1, WORD // bytes_)
    unrolled, count = 1, taps[-1]
    while unrolled < len(taps) and count * taps[-1 - unrolled] * elements <= SUMS:
        count *= taps[-1 - unrolled]
        unrolled += 1
    while elements > 1 and elements * count > MOST_SUMS:
        elements //= 2
    tile = tile_of(extent, TILE if count <= SUMS // 2 else TILE // 2)
    registers = next((r for most, r in REGISTERS if count * elements <= most), 0) if columns is not None else 0
    threads = 32 * WARPS
    if columns is None:
        return SumBlock(tile, elements * threads, 1, WARPS, unrolled, registers)
    wide = max(elements, up_to(columns, COLUMNS))
    while isinstance(columns, int) and wide > LANES and -(-columns // wide) * wide >= columns + wide // 2:
        wide //= 2
    return SumBlock(tile, max(1, elements * threads // wide), wide, WARPS, unrolled, registers)


STEPS_OF_SUMS = 4
"""The least steps of a program: fewer would not pay for adding up its threads' accumulators."""


def parts_of_sums(block: SumBlock, results: int, tiles: int, counts: Sequence[int], processors: int) -> int:
    """The number of parts, one of `counts` or 1, into which such a reduction is split. results: programs of the unsplit
    kernel; tiles: that it sums over."""
    wanted = min(FULL * processors // max(1, results), tiles // max(1, block.rows * STEPS_OF_SUMS))
    return max((n for n in (1, *counts) if n <= max(1, wanted)), default=1)


FULL = 8
"""Programs for each processor that fill it, for kernels whose threads need many registers."""
