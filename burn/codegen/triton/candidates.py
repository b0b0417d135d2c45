"""Autotuning candidates: shapes of blocks besides the heuristics' defaults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from burn.codegen.triton.abilities import SHARED_MEMORY, USUAL_ABILITIES
from burn.codegen.triton.heuristics.attention import Block
from burn.codegen.triton.heuristics.matmul import Tile, fitted, tiles_by_time
from burn.dialect.dims import Dim, LoopVar

PLAUSIBLE = 1.8
"""Tiles are tried if the cost model predicts at most this multiple of the fastest tile's time."""

NEAREST = 2
"""The fastest tiles by the model that are also tried with other numbers of warps and stages."""

SHARED = max(SHARED_MEMORY.values())
"""The most bytes of shared memory of a program on any GPU."""


def tiles(
    rows: Dim,
    columns: Dim,
    depth: Sequence[LoopVar],
    batch: Dim,
    bits: int,
    costly: bool = False,
    processors: int = USUAL_ABILITIES.processors,
) -> list[Tile]:
    """Tiles of a matmul that the cost model does not exclude; see `heuristics.matmul.matmul_tile`."""
    timed = tiles_by_time(rows, columns, depth, batch, bits, costly, processors)
    likely = [tile for tile, time in timed if time <= PLAUSIBLE * timed[0][1]]
    varied = [other for tile in likely[:NEAREST] for other in _varied(tile)]
    found = dict.fromkeys(fitted(tile, depth, bits) for tile in (*likely, *varied))
    return [tile for tile in found if tile.stages * (tile.rows + tile.columns) * tile.depth * bits // 8 <= SHARED]


def _varied(tile: Tile) -> Iterator[Tile]:
    for stages in (tile.stages - 1, tile.stages + 1):
        if stages >= 2:
            yield replace(tile, stages=stages)
    yield replace(tile, warps=4 if tile.warps == 8 else 8)


ATTENTION = (
    Block(128, 64, 8),
    Block(64, 64),
    Block(128, 128, 8),
    Block(128, 64),
    Block(64, 128, 4),
    Block(128, 64, 8, 2),
)
"""Blocks of half-precision attention over many rows. A block holds its keys and values in shared memory, `stages`
times."""

BACK = (
    Block(64, 64, 4, 2),
    Block(128, 64, 8, 2),
    Block(64, 128, 8, 2),
    Block(64, 64),
    Block(128, 64, 8),
    Block(64, 32, 4, 2),
)
"""The same for its backward pass."""


def blocks(default: Block, shapes: Sequence[Block], is_half: bool, depth: int) -> list[Block]:
    """Those of `shapes` that have at most twice the default's rows and keys and fit the GPU. `is_half`: the operands
    have 16 bits; others have no candidates."""
    return [
        block
        for block in shapes
        if is_half
        and block.rows <= 2 * default.rows
        and block.keys <= 2 * default.keys
        and (2 * block.keys * block.stages + block.rows) * max(depth, 16) * 2 <= SHARED
    ]
