"""Schedules of register-tiled matmuls: the tile, the order of tiles, and the operands that are copied before them."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu.heuristics.cache_blocking import (
    copies_panel,
    depth_part,
    fetches_ahead,
    held_tiles,
    masks_last,
    row_block,
    rows_outside,
    transposed_block,
    transposes_rows,
)
from burn.codegen.cpu.heuristics.epilogue import fetches_epilogue, rolls_epilogue
from burn.codegen.cpu.heuristics.padding import separates_interior, skips_padding
from burn.codegen.cpu.heuristics.panels import last_vectors
from burn.codegen.cpu.heuristics.registers import split_depth, tile_rows, unroll_factor
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, ceildiv, dim_max, factor, product
from burn.dialect.types import DTYPES


@dataclass(frozen=True)
class Order:
    """The order of a matmul's tiles: the fields of a `Schedule` from which the others follow."""

    tile: int
    part: int | None
    transposes: bool
    block: int | None
    copies: bool
    rows_outside: bool


@dataclass(frozen=True)
class Schedule:
    """Decisions made while sizes are numbers:

    - `tile`, `split`: rows accumulated at a time, each with `split` accumulators; `even`: tiles cover the rows exactly
    - `block`: tiles that are multiplied with all panels before the next ones (None: all)
    - `copies`: a panel of `width` columns is copied before a block's tiles read it; `transposes`: a block's rows are
      transposed
    - `fetches`: epilogue operands are prefetched; `rolls`: the epilogue is a loop
    - `part`, `held`: the depth is accumulated in parts, for `held` tiles at a time (None: all of it for each tile)
    - `ahead`: the next panel is prefetched
    - `together`, `ragged`: the unroll factor without `split`, and if a remainder may exist
    - `rows_outside`: batches within a block of rows, instead of blocks of rows within a batch
    - `narrow`: vectors of the last panel, if it has fewer columns; `masks_last`: only the code of the last panel has masks
    - `skips`: taps of a window that lie in the padding for all rows of a tile are left out
    - `interior`: tiles that read no padding have code of their own
    """

    width: int
    tile: int
    split: int
    block: int | None
    even: bool
    copies: bool
    transposes: bool
    fetches: bool
    rolls: bool
    part: int | None
    held: int
    ahead: bool
    together: int
    ragged: bool
    rows_outside: bool = False
    narrow: int | None = None
    masks_last: bool = False
    skips: bool = False
    interior: bool = False

    @staticmethod
    def of(kernel: Tiled, target: Target, one_by_one: bool = False) -> Schedule:
        """one_by_one: each row is accumulated as if it were the only one."""
        rows = 1 if one_by_one else product([v.extent for v in kernel.rows])
        vectors = kernel.width // vector_lanes(kernel, target)
        if target.compact:
            return Schedule.plain(kernel, vectors)
        tile = tile_rows(rows, vectors, target)
        part = depth_part(kernel, rows, target)
        transposes = transposes_rows(kernel, tile, target)
        block = (transposed_block if transposes else row_block)(kernel, rows, tile, part, target)
        copies, outside = copies_panel(kernel, rows, tile, block, target), rows_outside(kernel, block, target)
        return Schedule.ordered(kernel, target, rows, Order(tile, part, transposes, block, copies, outside))

    @property
    def order(self) -> Order:
        return Order(self.tile, self.part, self.transposes, self.block, self.copies, self.rows_outside)

    @staticmethod
    def ordered(kernel: Tiled, target: Target, rows: Dim, order: Order) -> Schedule:
        """The schedule with this order of tiles. If rows are transposed, the block must be a number; panels without
        contiguous columns are copied. Otherwise any order is correct. A block has no more tiles than there are."""
        tile, part, block = order.tile, order.part, order.block
        tiles = ceildiv(rows, tile)
        if block is not None and isinstance(tiles, int):
            alike = -(-tiles // max(1, -(-tiles // block)))
            block = max(1, min(block, tiles) if order.transposes else alike)
        vectors = kernel.width // vector_lanes(kernel, target)
        together = unroll_factor(target)
        rolls = rolls_epilogue(kernel, tile * vectors)
        return Schedule(
            width=kernel.width,
            tile=tile,
            split=split_depth(tile, vectors, target),
            block=block,
            even=isinstance(rows, int) and rows % tile == 0,
            copies=order.copies,
            transposes=order.transposes,
            fetches=fetches_epilogue(kernel),
            rolls=rolls,
            part=part,
            held=held_tiles(kernel, rows, tile, block, target) if part else 0,
            ahead=fetches_ahead(kernel, tile, vectors, block, target),
            together=together,
            ragged=any(factor(n) % together != 0 for n in (kernel.inner.extent, part or 0)),
            rows_outside=order.rows_outside,
            narrow=None if rolls else last_vectors(kernel.column.extent, kernel.width, kernel.width // vectors),
            masks_last=masks_last(kernel, rolls, order.copies, target),
            skips=skips_padding(kernel, tile, vectors, target),
            interior=separates_interior(kernel, tile, vectors, target),
        )

    @staticmethod
    def plain(kernel: Tiled, vectors: int) -> Schedule:
        """The schedule with the least code: row by row, with copies only of columns that are not contiguous."""
        copies = not kernel.has_contiguous_columns or kernel.blocks is not None
        return Schedule(kernel.width, 1, 1, None, True, copies, False, False, vectors > 1, None, 0, False, 1, False)

    def least(self, target: Target) -> int:
        """Iterations of a launch that share copies."""
        if self.transposes and self.block:
            return self.block * target.costs.copied_tiles
        return target.costs.copied_tiles if self.copies else 1

    def blocks(self, kernel: Tiled) -> tuple[Dim, Dim]:
        """The number of blocks of tiles, and of tiles in each: the same in all blocks; the last tiles may not exist."""
        tiles = ceildiv(product([v.extent for v in kernel.rows]), self.tile)
        if self.block is None:
            return 1, tiles
        blocks = ceildiv(tiles, self.block)
        return blocks, self.block if self.transposes else ceildiv(tiles, dim_max(blocks, 1))

    def count(self, kernel: Tiled) -> Dim:
        """Iterations of a launch: tiles x panels x batches."""
        return product([v.extent for v in kernel.batch]) * product(self.blocks(kernel)) * kernel.panel.extent

    def work(self, kernel: Tiled) -> Dim:
        """Vector operations of one iteration."""
        return product([v.extent for v in (*kernel.outer, kernel.inner)]) * (self.tile * kernel.width // 8)


def vector_lanes(kernel: Tiled, target: Target) -> int:
    return min(target.lanes(DTYPES[kernel.dtype].size), kernel.width)
