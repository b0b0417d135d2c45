"""Heuristics for depthwise convolutions by tensor cores (`codegen/triton/banded.py`): which they are, and their blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from burn.codegen.triton.heuristics.windows import tile_of
from burn.dialect.dims import Dim, ceildiv, estimate

TILES = 16
"""Tiles of a program: the rows of a matrix instruction."""

DEPTH = 16
"""Positions of a matmul: the depth of a matrix instruction."""

MATRICES = 8
"""Bands of the weight that pass through shared memory at once, 8 KB each at most. They share a barrier."""

RESULTS = 8
"""Adjacent results of a tile if it walks along another axis: with up to 9 taps they read at most `DEPTH` positions. With a stride
or a dilation a tile may have fewer."""

LEAST_RESULTS = 4
"""The fewest: a matmul then computes as many columns that are not stored."""

AHEAD = 2
"""Steps that are loaded before the one that is multiplied. With none, a step waits for the memory: twice the time. Four need too
many registers."""


@dataclass(frozen=True)
class BandBlock:
    """walked: steps of results that a tile walks over; channels, warps: of a program."""

    walked: int
    channels: int
    warps: int


SHAPES = ((32, 16, 1.0), (16, 8, 0.6))
"""Channels and warps of a program, and the time of its steps in those of the first. Two small programs on one processor take a
little longer than a large one."""

SINGLE = ((16, 16, 0.7),)
"""The same if a warp has one channel instead of two."""

REGISTERS = 88
"""Registers of a thread for bands and accumulators; with more, 128 do not hold the rest."""

START = 2
"""The steps that take as long as the start of a program, which loads the weight."""

LONGEST = 24
"""The most steps of results: a program's text has all of them."""

LEAST_CHANNELS = 16
"""Fewer channels than those of a small program would leave threads idle."""

LEAST_TAPS = 25
"""Fewer taps do not keep the float32 units busy. Of the windows that were timed, 3x3 is slower by tensor cores, 5x5 faster."""


def shapes_of(bands: int, results: int, alive: int) -> tuple[tuple[int, int, float], ...]:
    """The shapes of programs whose threads have enough registers. bands: matrices of the weight; results: of a tile's step;
    alive: accumulators of steps that are not complete."""
    channel = bands * DEPTH * results // 64 + alive * TILES * results // 32
    return SHAPES if 2 * channel <= REGISTERS else SINGLE if channel <= REGISTERS else ()


def band_block(
    channels: int,
    extent: Dim,
    tiles: Callable[[int], Dim],
    steps: Callable[[int], int],
    shapes: tuple[tuple[int, int, float], ...],
    multiple: int,
    processors: int,
) -> BandBlock | None:
    """The block of the least estimated time: the programs of the busiest processor times their steps. None without a shape.

    extent: steps of results; tiles: of the kernel if each walks over so many; steps: that are loaded for them; multiple: of the
    walked steps."""
    if not shapes:
        return None
    return min(
        (BandBlock(walked, each, warps) for each, warps, _ in shapes for walked in _walks(extent, multiple)),
        key=lambda block: (_time(block, channels, tiles, steps, shapes, processors), block.walked),
    )


def _walks(extent: Dim, multiple: int) -> Iterator[int]:
    """Numbers of steps that cut an axis into about equal parts."""
    if not isinstance(extent, int):
        yield tile_of(extent, LONGEST, multiple)
        return
    walks = range(multiple, max(LONGEST, multiple) + 1, multiple)
    yield from sorted({next((w for w in walks if w * n >= extent), walks[-1]) for n in range(1, max(2, extent + 1))})


def _time(
    block: BandBlock,
    channels: int,
    tiles: Callable[[int], Dim],
    steps: Callable[[int], int],
    shapes: tuple[tuple[int, int, float], ...],
    processors: int,
) -> float:
    cost = next(c for each, warps, c in shapes if (each, warps) == (block.channels, block.warps))
    programs = estimate(ceildiv(tiles(block.walked), TILES)) * -(-channels // block.channels)
    return -(-programs // processors) * (steps(block.walked) + START) * cost
