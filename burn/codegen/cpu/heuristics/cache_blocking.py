"""Cache blocking of contractions: the order of tiles, and the operands that are copied."""

from __future__ import annotations

from burn.codegen.cpu.heuristics.epilogue import parts_masks
from burn.codegen.cpu.heuristics.panels import last_vectors
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, ceildiv, coefficient, exact_div, floordiv, product
from burn.dialect.types import DTYPES

STAGE = 512
"""The depth for which a tile's rows are converted at a time: eight rows of float32 are 16 KiB and stay in the
first-level cache."""

MANY_ROWS = 64
"""Rows from which a long, or possibly long, depth is split."""


MOST_STREAMS = 4
"""Multiples of `Costs.streams` that several tiles of rows read at a time."""


def depth_part(kernel: Tiled, rows: Dim, target: Target) -> int | None:
    """The length of the parts of the depth; None for a single part. A depth up to half as long again is not split. Many rows
    of the lhs share a part's panel."""
    if kernel.outer or kernel.valid:
        return None
    depth, columns, part = kernel.inner.extent, kernel.column.extent, target.costs.depth_part
    if isinstance(depth, int):
        if streams := rhs_streams(kernel, rows, target):
            return min(streams, depth)
        long = not isinstance(rows, int) or rows >= MANY_ROWS or kernel.blocks is not None
        return part if depth > 1.5 * part and long else None
    many = isinstance(rows, int) and isinstance(columns, int) and min(rows, columns) >= MANY_ROWS
    return part if many else None


def rhs_streams(kernel: Tiled, rows: Dim, target: Target) -> int:
    """Rows of a large rhs in place that tiles of few rows of the lhs read at a time; 0 if they read panels of the whole depth.
    Such a panel is a line or two of each page, which no prefetcher follows, while parts of the depth read whole rows. Sums are
    read and written once for each part, so a part has about as many rows as the lhs."""
    in_place = not kernel.packed and kernel.has_contiguous_columns and kernel.blocks is None and kernel.run == 1
    if not in_place or not isinstance(rows, int) or rows >= MANY_ROWS or kernel.outer or kernel.valid:
        return 0
    right = kernel.depth_elements * kernel.column.extent * DTYPES[kernel.rhs.dtype].size
    if not isinstance(right, int) or right <= target.costs.l2_block:
        return 0
    return target.costs.streams * max(1, min(rows // target.costs.streams, MOST_STREAMS))


def held_tiles(kernel: Tiled, rows: Dim, tile: int, block: int | None, target: Target) -> int:
    """Tiles accumulated together, part by part: those of a block of rows, for as many panels as a thread can keep."""
    tiles = block or ceildiv(rows, tile)
    panels = kernel.panel.extent
    most = target.costs.held // (tile * kernel.width * DTYPES[kernel.dtype].size)
    if not isinstance(tiles, int):
        return most
    tiles = max(1, tiles)  # a batch without rows
    return tiles * max(1, min(most // tiles, panels) if isinstance(panels, int) else most // tiles)


NEAR = 3
"""A batch's lhs of up to this part of `Costs.l2_block` stays in the cache while panels of the rhs are read."""

GROUP_TILES = 2
"""Tiles of rows that read a panel of a group consecutively, before the next group of the same rows."""


def row_block(kernel: Tiled, rows: Dim, tile: int, part: int | None, target: Target) -> int | None:
    """The number of row tiles that are multiplied with all panels before the next ones; None for all tiles, panel by
    panel.

    An rhs that fits in the cache stays there: use few rows at a time. But if each batch of few rows has its own rhs, it
    comes from memory, and panels are prefetched. Panels of a ragged rhs are copied once for all rows, if that pays
    (`_copies_ragged`). A larger rhs is read once for each block.
    """
    depth, cached = kernel.depth_elements, target.costs.l2_block
    width = DTYPES[kernel.lhs.dtype].size
    right = depth * kernel.column.extent * DTYPES[kernel.rhs.dtype].size
    if isinstance(right, int) and right <= cached:
        if rows_outside(kernel, GROUP_TILES, target):
            return GROUP_TILES
        left = rows * depth * width
        if isinstance(left, int) and left <= cached and _copies_ragged(kernel, rows, tile, right, target):
            return None
        near = kernel.packed and kernel.batch and not kernel.valid and isinstance(left, int) and left <= cached // NEAR
        return None if near else 1
    footprint = (
        part * kernel.run * width
        if part
        else kernel.inner.extent * kernel.run * width
        if kernel.valid
        else depth * width
    )
    block = max(1, cached // max(1, footprint * tile)) if isinstance(footprint, int) else 16
    if isinstance(rows, int) and block * tile >= rows:
        return None
    return block


def rows_outside(kernel: Tiled, block: int | None, target: Target) -> bool:
    """True if all batches of a block of rows are multiplied before the next block. Batches are then groups of
    neighbouring elements of a row, and all their rhs fit in a cache. A thread processes whole rows, as in neighbouring
    kernels."""
    right = (
        product([v.extent for v in kernel.batch])
        * kernel.depth_elements
        * kernel.column.extent
        * DTYPES[kernel.rhs.dtype].size
    )
    if block is None or not kernel.batch or not kernel.rows or not isinstance(right, int):
        return False
    if right > target.costs.l2_block:
        return False
    row = coefficient(kernel.lhs.offset, kernel.rows[-1])
    steps = [coefficient(kernel.lhs.offset, v) for v in kernel.batch if v.extent != 1]
    return isinstance(row, int) and all(isinstance(step, int) and 0 < step < row for step in steps) and bool(steps)


def copies_panel(kernel: Tiled, rows: Dim, tile: int, block: int | None, target: Target) -> bool:
    """True if a panel of an unpacked rhs is copied before the tiles of a block read it.

    Without a copy its rows have the stride of the whole rhs, often in one cache set. Strided columns are always copied.
    """
    if not kernel.has_contiguous_columns or kernel.blocks is not None:
        return True
    if rhs_streams(kernel, rows, target):
        return False
    tiles = ceildiv(rows, tile)
    return isinstance(tiles, int) and _pays_to_copy(kernel, min(tiles, block or tiles), target)


def _pays_to_copy(kernel: Tiled, tiles: Dim, target: Target) -> bool:
    """True if so many tiles of rows read a panel that is not contiguous."""
    return not kernel.packed and isinstance(tiles, int) and tiles >= target.costs.copied_tiles


def masks_last(kernel: Tiled, rolls: bool, copies: bool, target: Target) -> bool:
    """True if the last panel of an rhs in place has code of its own, because columns may not fill it and masked loads are slow.
    Eight masks would also take half of the vector registers. rolls: the epilogue is a loop over all vectors."""
    is_ragged = exact_div(kernel.column.extent, kernel.width) is None
    return parts_masks(target) and is_ragged and not (kernel.packed or copies or rolls)


FIRST_LEVEL = 32 << 10
"""Bytes that fit in every first-level cache."""


UNSPILLED_ROWS = 6
"""The most rows of a tile that reads masked columns in place without spills. LLVM moves row elements of several unrolled steps
before the masked loads. With 8 rows they exceed 32 vector registers: kernels stored 20 vectors on the stack and took 1.6 times
as long. Separate code for the last panel also spills with 6 rows."""


def _copies_ragged(kernel: Tiled, rows: Dim, tile: int, right: int, target: Target) -> bool:
    """True if panels of an rhs of `right` bytes pay a copy because columns do not fill the last one. Loads are then masked.
    Without AVX-512 that takes twice the time. With it only tiles of many rows are slow (`UNSPILLED_ROWS`). With separate code for
    the last panel, twice as many rows must share the copy."""
    columns, lanes = kernel.column.extent, target.lanes(DTYPES[kernel.dtype].size)
    tiles = ceildiv(rows, tile)
    if not isinstance(columns, int) or columns % kernel.width == 0 or not _pays_to_copy(kernel, tiles, target):
        return False
    if parts_masks(target):
        return True
    is_separate = last_vectors(columns, kernel.width, lanes) is not None
    if right <= FIRST_LEVEL or tile <= (UNSPILLED_ROWS - 1 if is_separate else UNSPILLED_ROWS):
        return False
    return _pays_to_copy(kernel, floordiv(tiles, 2) if is_separate else tiles, target)


ADDRESSES = 10
"""General registers of a convolution's loop that hold no address of a row: panels, counters, offsets of the window, the stack.
With eight rows of three vectors on x86-64, LLVM spilled accumulators beside the prefetches: 40 of the loop's 214 instructions
used the stack, and 4 of 145 without them."""


def fetches_ahead(kernel: Tiled, tile: int, vectors: int, block: int | None, target: Target) -> bool:
    """True if the tiles of a block prefetch the next panel. Packed panels are contiguous, but the hardware prefetcher
    cannot know that other tiles read the current panel first. One prefetch per depth element is free beside enough
    multiply-adds, if registers hold the addresses of all rows. If a block is one tile, panels stay in the cache and follow each
    other."""
    in_place = kernel.lhs.dtype == kernel.dtype or kernel.run > 1
    if kernel.outer and tile > target.general_registers - ADDRESSES:
        return False
    return kernel.packed and kernel.panel.extent != 1 and block != 1 and in_place and tile * vectors >= 8


TRANSPOSED_TILES = 8
"""Tiles of rows transposed together if the depth is known only at run time."""

TRANSPOSED_DEPTH = 8
"""The depth transposed at a time: its rows may all share one cache set."""


def transposes_rows(kernel: Tiled, tile: int, target: Target) -> bool:
    """True if rows of the lhs are copied and transposed tile by tile. If neighbouring rows rather than a row's elements
    are contiguous, every depth element would be in another cache line, and often in another page."""
    if kernel.valid or kernel.lhs.dtype != kernel.dtype or not kernel.rows or tile < 4:
        return False
    if tile & (tile - 1) and target.vector_bytes < 32:
        return False  # part of a vector is read and written element by element
    last = kernel.rows[-1]
    whole = len(kernel.rows) == 1 or (isinstance(last.extent, int) and last.extent % tile == 0)
    if not whole or coefficient(kernel.lhs.offset, last) != 1 or coefficient(kernel.lhs.offset, kernel.inner) == 1:
        return False
    panels = kernel.panel.extent
    return not isinstance(panels, int) or panels >= target.costs.copied_tiles


def transposed_block(kernel: Tiled, rows: Dim, tile: int, part: int | None, target: Target) -> int:
    """Tiles of rows transposed together; all panels are read once for each of these blocks."""
    depth = part or product([v.extent for v in (*kernel.outer, kernel.inner)])
    block = TRANSPOSED_TILES
    if isinstance(depth, int):
        block = max(1, target.costs.l2_block // max(1, depth * tile * DTYPES[kernel.dtype].size))
    return max(1, min(block, -(-rows // tile))) if isinstance(rows, int) else block
