"""Heuristics for the panel width of a matmul's rhs."""

from __future__ import annotations

from burn.codegen.cpu.heuristics.amx import TILE_RUNS, bytes_fill, fill_tiles, tile_sizes
from burn.codegen.cpu.heuristics.registers import most_rows, tile_cost, tile_rows
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, product
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel
from burn.kernels.layouts import PackedMatmul

COMPACT_VECTORS = 4
"""Vectors of a panel with one row: four independent accumulators in five lines of code. Rows would need addresses and
checks of their own."""


def panel_vectors(target: Target) -> int:
    """The most vectors of a panel's columns. With 32 registers, four with six rows: an element of the lhs is loaded for
    four multiply-adds, and the loop has 1.4 instructions for each; two vectors with eight rows need 1.6. Cores that
    decode few instructions at a time, as all do with a busy sibling thread, are decode-bound. With fewer registers,
    two."""
    return COMPACT_VECTORS if target.compact else target.costs.panel_vectors


def packed_width(matmul: PackedMatmul, target: Target) -> int:
    """Columns of a panel that is packed once: whole vectors, fewer of them if that wastes less."""
    columns, default, lanes = matmul.columns, panel_vectors(target), target.lanes(DTYPES[matmul.dtype].size)
    if target.compact:
        return _fitting(columns, (default, 1), lanes)
    if (
        target.tiles
        and matmul.dtype == "float32"
        and fill_tiles(matmul.rows, columns, matmul.depth, tile_sizes(target)) is not None
    ):
        return _fitting(columns, (2, 1), lanes)  # the width of tile registers
    return _cheapest(matmul.rows, columns, lanes, target, pads=not matmul.once)


def interleaved_width(matmul: PackedMatmul, target: Target) -> int:
    """The same for interleaved runs of bytes or bfloat16, with one lhs run loaded per vector: mostly four vectors with six
    rows."""
    columns = matmul.columns
    line = matmul.line * (1 if matmul.dtype == "int32" else 2)  # bytes
    suits_tiles = matmul.interleaved == TILE_RUNS[matmul.dtype] and bytes_fill(matmul.rows, columns, line) is not None
    if target.tiles and suits_tiles:
        return 2 * target.lanes(4)  # the width of tile registers
    few = isinstance(matmul.rows, int) and matmul.rows <= target.costs.tile_rows
    if matmul.dtype == "float32" and target.multiplies_pairs and not few:
        return _cheapest_pairs(columns, target)
    most = 4 if target.vector_registers >= 32 else 2
    return _fitting(columns, (most, 2, 1), target.lanes(4))


PAIR_CHAINS = 12
"""Independent accumulators that keep the units of vdpbf16ps busy: latency times units (Zen 5). In tiles of eight rows and one
vector they wait."""


def _cheapest_pairs(columns: int, target: Target) -> int:
    """The cheapest panel width for pairs of bfloat16, with many rows. The last panel may have fewer vectors."""
    lanes, most = target.lanes(4), panel_vectors(target)
    needed = max(1, -(-columns // lanes))
    if needed <= most:
        return needed * lanes

    def cost(vectors: int) -> float:
        rows, width = most_rows(vectors, target), vectors * lanes

        def each(count: int) -> float:
            """Of a row, with a panel of so many vectors."""
            return max(tile_cost(rows, count), 2 * PAIR_CHAINS + rows + count) / rows

        left = last_vectors(columns, width, lanes) or vectors
        return each(vectors) * (-(-columns // width) - 1) + each(left)

    return min(range(most, 0, -1), key=cost) * lanes


def panel_width(kernel: ContractionKernel, target: Target) -> int:
    """Columns of a panel of an unpacked rhs. With up to three rows there are registers for more vectors, so that longer
    runs of the rhs are read at a time."""
    columns, lanes = kernel.column.extent, target.lanes(DTYPES[kernel.dtype].size)
    rows = product([v.extent for v in kernel.rows])
    default = panel_vectors(target)
    if target.compact:
        return _fitting(columns, (default, 1), lanes) if isinstance(columns, int) else default * lanes
    few = {1: 8, 2: 4, 3: 3}.get(rows, default) if isinstance(rows, int) else default
    if few > default:
        return (
            _fitting(columns, (few, default, *range(default - 1, 0, -1)), lanes)
            if isinstance(columns, int)
            else few * lanes
        )
    return _cheapest(rows, columns, lanes, target) if isinstance(columns, int) else default * lanes


SPARED = 1 / 8
"""The fraction of a matmul's vectors that separate code for the last panel must save."""


def last_vectors(columns: Dim, width: int, lanes: int) -> int | None:
    """Vectors with columns in the last panel, if separate code for them pays."""
    if not isinstance(columns, int) or columns == 0:
        return None
    vectors, panels = width // lanes, -(-columns // width)
    left = -(-columns // lanes) - (panels - 1) * vectors
    return left if vectors - left >= SPARED * panels * vectors else None


GAIN = 0.98
"""The cost of three vectors must be below this fraction of that of two: their panels are longer, and fewer rows share
them."""


PADDED = 5
"""The cost of an element that is copied to pad the columns of an rhs, in the unit of `tile_cost`. Padding is a kernel of its own.
On Zen 3 it takes 0.33 ns an element, and a multiply-add of eight lanes 0.21 ns."""


def _cheapest(rows: Dim, columns: int, lanes: int, target: Target, pads: bool = False) -> int:
    """The cheapest panel width. With 32 registers: up to four vectors, with many rows. With 16: two vectors with six
    rows, or three with four, which is seven loads for 12 multiply-adds instead of eight, and four streams of rows
    besides the panel's. One if two are mostly empty. pads: columns that do not fill the last panel are padded first."""
    default = panel_vectors(target)
    columns = max(1, columns)

    def cost(vectors: int, rows: Dim | None) -> float:
        panels = -(-columns // (vectors * lanes))
        if not isinstance(rows, int):
            most = most_rows(vectors, target)
            return panels * tile_cost(most, vectors) / most
        tile = tile_rows(rows, vectors, target)
        padding = PADDED * columns if pads and columns % (vectors * lanes) else 0
        return panels * -(-rows // tile) * tile_cost(tile, vectors) + padding

    if default > 2:
        return min(range(default, 0, -1), key=lambda vectors: cost(vectors, None)) * lanes
    few = _fitting(columns, (2, 1) if default > 1 else (1,), lanes)
    wide = target.vector_bytes == 32 and default > 1 and columns > few
    return 3 * lanes if wide and cost(3, rows) < GAIN * cost(few // lanes, rows) else few


def _fitting(columns: int, widths: tuple[int, ...], lanes: int) -> int:
    """The first of these widths, in vectors, that reads at most half as much again as one vector."""
    read = {vectors: -(-max(1, columns) // (vectors * lanes)) * vectors for vectors in widths}
    return next(vectors for vectors in widths if read[vectors] <= 1.5 * read[1]) * lanes
