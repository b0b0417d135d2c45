"""The order of a contraction's tiles, and the parts of its operands that are copied, so that caches hold them."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, ceildiv, coefficient, product
from burn.dialect.types import DTYPES

STAGE = 512
"""Places of the depth for which a tile's rows are converted at a time: eight rows of float32 are 16 KiB and stay in the
first-level cache."""

L2_BLOCK = 384 * 1024
"""Bytes of the left side that should stay in the second-level cache while panels of the right side pass by."""

PART = 1024
"""Places of the depth that a tile is summed over at a time: a panel of two vectors is 128 KiB then, and rows of the left side
that share it are many."""

HELD = 1024 * 1024
"""Bytes of sums that are held between two parts of the depth."""

MANY_ROWS = 64
"""Rows from which on a depth that is long, or may be, is cut."""


def depth_part(kernel: Tiled, rows: Dim) -> int | None:
    """Into which parts the depth is cut; None where it is summed in one go. A part that is half as long again is not cut."""
    if kernel.outer or kernel.valid:
        return None
    depth, columns = kernel.inner.extent, kernel.column.extent
    if isinstance(depth, int):
        long = not isinstance(rows, int) or rows >= MANY_ROWS or kernel.blocks is not None
        return PART if depth > 1.5 * PART and long else None
    many = isinstance(rows, int) and isinstance(columns, int) and min(rows, columns) >= MANY_ROWS
    return PART if many else None


def held_tiles(kernel: Tiled, rows: Dim, tile: int, block: int | None) -> int:
    """Tiles that are summed together, part by part: those of a block of rows, through as many panels as HELD has room for."""
    tiles = block or ceildiv(rows, tile)
    panels = kernel.panel.extent
    most = HELD // (tile * kernel.width * DTYPES[kernel.dtype].size)
    if not isinstance(tiles, int):
        return most
    tiles = max(1, tiles)  # of a batch without rows
    return tiles * max(1, min(most // tiles, panels) if isinstance(panels, int) else most // tiles)


NEAR_ROWS = 128 * 1024
"""Bytes of a batch's left side that stay at hand while panels of the right side pass by."""

GROUP_TILES = 2
"""Tiles of rows that read a panel of a group one after the other, before the next group of the same rows."""


def row_block(kernel: Tiled, rows: Dim, tile: int, part: int | None) -> int | None:
    """How many tiles of rows are taken through all panels before the next; None for all of them, panel by panel.

    A right side that fits in the cache stays there: few rows at a time. But where each batch of few rows has its own, it comes
    from memory, and panels are asked for ahead. A larger one passes by once for each block."""
    depth = kernel.places
    width = DTYPES[kernel.lhs.dtype].size
    right = depth * kernel.column.extent * DTYPES[kernel.rhs.dtype].size
    if isinstance(right, int) and right <= L2_BLOCK:
        if rows_outside(kernel, GROUP_TILES):
            return GROUP_TILES
        left = rows * depth * width
        near = kernel.packed and kernel.batch and not kernel.valid and isinstance(left, int) and left <= NEAR_ROWS
        return None if near else 1
    footprint = (
        part * kernel.run * width
        if part
        else kernel.inner.extent * kernel.run * width
        if kernel.valid
        else depth * width
    )
    block = max(1, L2_BLOCK // max(1, footprint * tile)) if isinstance(footprint, int) else 16
    if isinstance(rows, int) and block * tile >= rows:
        return None
    return block


def rows_outside(kernel: Tiled, block: int | None) -> bool:
    """Whether all batches of a block of rows are multiplied before the next block: where batches are groups of neighbouring
    elements of a row, whose right sides stay in a cache together. A thread has whole rows then, as in the kernels around."""
    right = (
        product([v.extent for v in kernel.batch]) * kernel.places * kernel.column.extent * DTYPES[kernel.rhs.dtype].size
    )
    if block is None or not kernel.batch or not kernel.rows or not isinstance(right, int) or right > L2_BLOCK:
        return False
    row = coefficient(kernel.lhs.offset, kernel.rows[-1])
    steps = [coefficient(kernel.lhs.offset, v) for v in kernel.batch if v.extent != 1]
    return isinstance(row, int) and all(isinstance(step, int) and 0 < step < row for step in steps) and bool(steps)


COPIED_TILES = 4
"""Tiles that one after the other read a copied panel and so pay for the copy."""


def copies_panel(kernel: Tiled, rows: Dim, tile: int, block: int | None) -> bool:
    """Whether a panel of an unpacked right side is copied before the tiles of a block read it, one after the other.

    In place, its rows lie as far apart as the right side is wide: often in one set of the cache. Columns that do not lie side
    by side are always copied."""
    if not kernel.side_by_side or kernel.blocks is not None:
        return True
    tiles = ceildiv(rows, tile)
    if kernel.packed or not isinstance(tiles, int):
        return False
    return min(tiles, block or tiles) >= COPIED_TILES


def fetches_ahead(kernel: Tiled, tile: int, vectors: int, block: int | None) -> bool:
    """Whether the tiles of a block ask for the next panel while they read one: panels that were packed lie one behind the other,
    and a CPU that follows their reading does not know that other tiles come first. One request for each place of the depth costs
    nothing beside enough multiply-adds. Where a block is one tile, panels stay in the cache and follow each other."""
    in_place = kernel.lhs.dtype == kernel.dtype or kernel.run > 1
    return kernel.packed and kernel.panel.extent != 1 and block != 1 and in_place and tile * vectors >= 8


TURNED_TILES = 8
"""Tiles of rows that are turned together where the depth is known only when the program runs."""

TURNED_PLACES = 8
"""Places of the depth that are turned at a time: their rows may all lie in one set of the cache."""


def turns_rows(kernel: Tiled, tile: int, target: Target) -> bool:
    """Whether rows of the left side are copied tile by tile, one place of the depth after another: where neighbouring rows, and
    not a row's elements, lie side by side, every place would be another cache line, and often another page."""
    if kernel.valid or kernel.lhs.dtype != kernel.dtype or not kernel.rows or tile < 4:
        return False
    if tile & (tile - 1) and target.vector_bytes < 32:
        return False  # part of a vector is read and written one by one
    last = kernel.rows[-1]
    whole = len(kernel.rows) == 1 or (isinstance(last.extent, int) and last.extent % tile == 0)
    if not whole or coefficient(kernel.lhs.offset, last) != 1 or coefficient(kernel.lhs.offset, kernel.inner) == 1:
        return False
    panels = kernel.panel.extent
    return not isinstance(panels, int) or panels >= COPIED_TILES


def turned_block(kernel: Tiled, rows: Dim, tile: int, part: int | None) -> int:
    """How many tiles of rows are turned together; the panels pass by once for each of these blocks."""
    depth = part or product([v.extent for v in (*kernel.outer, kernel.inner)])
    block = TURNED_TILES
    if isinstance(depth, int):
        block = max(1, L2_BLOCK // max(1, depth * tile * DTYPES[kernel.dtype].size))
    return max(1, min(block, -(-rows // tile))) if isinstance(rows, int) else block
