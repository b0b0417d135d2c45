"""When contractions use AMX, and what they copy, keep and write meanwhile."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.matmul.vnni import VNNI
from burn.codegen.cpu.target import Target
from burn.codegen.host.launches import THREADS
from burn.dialect.dims import Dim, ceildiv, coefficient, dim_max, dim_min, factor, floordiv, product
from burn.kernels.body import EXPENSIVE, Apply, ContractionKernel, Convert, walk

TILE_SIZES = (64, 128, 128)
"""Rows, columns and places of the depth from which on a contraction is summed in tile registers: with fewer, less is multiplied
than copied. Of 96 columns and a depth of 96, vectors are as fast with a thousand rows, and a third faster with 128."""

FEW_BITS_SIZES = (33, 128, 128)
"""The same for weights of a few bits, which become floats in any case: more than a strip of rows."""

FEWEST_SIZES = (32, 32, 32)
"""The same where it is tried whether tile registers pay: with fewer they are mostly empty."""


def amx_conditions(
    kernel: ContractionKernel, target: Target, least: tuple[int, int, int] = TILE_SIZES
) -> tuple[tuple[Dim, int], ...] | None:
    """Whether a contraction is summed in tile registers: where there are some, both sides can be copied by whole vectors, and
    enough is multiplied with what is copied. If so, the sizes that only a run can tell, with the least that each has to be."""
    if not target.tiles or target.small:
        return None
    if kernel.dtype == "int32":
        return _int8_conditions(kernel)
    if kernel.dtype != "float32":
        return None
    tiled = Tiled.of(kernel, 32)
    if tiled is None or not tiled.rows or tiled.lhs.dtype != "float32" or tiled.rhs.dtype != "float32":
        return None
    if tiled.outer or tiled.valid:
        return None  # places of a window are short parts of the depth, and of the same pixels: in place they cost less
    if not _tile_rows_at_hand(tiled) or not (tiled.side_by_side or coefficient(tiled.rhs.offset, tiled.inner) == 1):
        return None
    if tiled.blocks is not None and factor(tiled.inner.extent) % 32 != 0:
        return None  # words of the depth go by twos, half a register's line apart
    return fill_tiles(product([v.extent for v in tiled.rows]), tiled.column.extent, tiled.inner.extent, least)


def _int8_conditions(kernel: ContractionKernel) -> tuple[tuple[Dim, int], ...] | None:
    """The same for products of bytes, of which registers take lines of 64 out of panels as they lie there."""
    tiled = Tiled.of(kernel, 32)
    if tiled is None or tiled.run != VNNI or not tiled.rows or tiled.byte_blocks is None:
        return None
    return bytes_fill(product([v.extent for v in tiled.rows]), tiled.column.extent, tiled.inner.extent * VNNI)


BYTE_SIZES = (16, 32)
"""Rows and columns from which on products of bytes are summed in tile registers: a strip has 32 of both."""


def bytes_fill(rows: Dim, columns: Dim, line: Dim) -> tuple[tuple[Dim, int], ...] | None:
    """Whether a product of bytes, of which `line` lie side by side on the left, is large enough for tile registers."""
    if not isinstance(line, int) or line == 0 or line % 64:
        return None
    asked = [(size, least) for size, least in zip((rows, columns), BYTE_SIZES, strict=True) if factor(size) < least]
    return None if any(isinstance(size, int) for size, _ in asked) else tuple(asked)


def fill_tiles(
    rows: Dim, columns: Dim, depth: Dim, least: tuple[int, int, int] = TILE_SIZES
) -> tuple[tuple[Dim, int], ...] | None:
    """Whether a product is large enough for tile registers: None where it is not, else what a run has to ask as above."""
    asked = [(size, n) for size, n in zip((rows, columns, depth), least, strict=True) if factor(size) < n]
    return None if any(isinstance(size, int) for size, _ in asked) else tuple(asked)


def _tile_rows_at_hand(kernel: Tiled) -> bool:
    if coefficient(kernel.lhs.offset, kernel.inner) == 1:
        return True
    last = kernel.rows[-1]
    whole = len(kernel.rows) == 1 or (isinstance(last.extent, int) and last.extent % 16 == 0)
    return whole and coefficient(kernel.lhs.offset, last) == 1


TILE_PART = 768
"""Places of the depth that are summed at a time: two panels are 288 KiB of the second-level cache then, and the depth of many
models' products is one part, so that no sums are held."""


def tile_part(depth: Dim, block: int) -> int:
    """Places of the depth that are summed at a time: whole blocks, in parts that are alike."""
    if not isinstance(depth, int):
        return TILE_PART
    parts = max(1, -(-depth // TILE_PART))
    return max(1, -(-depth // (parts * block))) * block


TILE_ROWS = 640 * 1024
"""Bytes that a block of rows is copied to; with panels, and what is read, it fits into a second-level cache of 2 MiB."""


def tile_strips(strips: Dim, size: int) -> int:
    """Strips of rows, of so many bytes each, that are copied together."""
    most = max(1, TILE_ROWS // size)
    if not isinstance(strips, int):
        return most
    blocks = max(1, -(-strips // most))
    return max(1, -(-strips // blocks))


TILE_PANELS = 200 * 1024
"""Bytes that panels are copied to together where they do not lie in one piece: of a row more is read at a time."""


def tile_panels(kernel: Tiled, size: int) -> int:
    """Panels, of so many bytes each, that are copied together."""
    panels, most = kernel.panel.extent, max(1, TILE_PANELS // size)
    if kernel.packed or kernel.blocks is not None:
        return 1
    return max(1, min(most, panels)) if isinstance(panels, int) else most


TILE_STRIPS = 8
"""Strips of rows that a thread has at least where there are many."""


TILE_UNITS = 4
"""Units of a panel that are copied beside the products of a block at most."""


def tile_copies(kernel: Tiled, units: int, strips: int) -> int:
    """Units of the next panel, of so many for each block, that are copied beside the products of a block: enough for the strips
    that a thread is handed at least. Only panels that were packed lie in one piece: of others, several are copied together
    before."""
    in_one_piece = kernel.packed or kernel.blocks is not None
    return min(TILE_UNITS, -(-units // min(strips, TILE_STRIPS))) if in_one_piece else 0


TILE_CODE = 1600
"""Operations that an epilogue may have beside the products of a block."""


def tile_beside(kernel: Tiled, part: int, depth: int | None) -> int:
    """Rows of a strip of 32 that are written beside the products of a block, where parts of the depth have `part` blocks, of
    `depth`: a power of two, so that the last part has enough blocks for all."""
    if depth is None:
        return 0
    last = max(1, depth - (max(1, -(-depth // part)) - 1) * part)
    rows = next(n for n in (2, 4, 8, 16, 32) if n * last >= 32)
    nodes = [node for node in walk(*(w.value for w in kernel.epilogue)) if isinstance(node, Apply | Convert)]
    cost = sum(32 if isinstance(n, Apply) and n.function in EXPENSIVE else 1 for n in nodes)
    return rows if 2 * rows * (cost + 4) <= TILE_CODE else 0


TILE_HELD = 1024 * 1024
"""Bytes of sums that are held between two parts of the depth."""


def tile_held(size: int) -> int:
    """Panels whose sums, of so many bytes, are held between parts."""
    return max(1, TILE_HELD // size)


TILE_SPACE = 10
"""Instructions that do nothing behind each one of tile registers. While the core's other thread is busy, tile instructions
that are issued together wait for each other: with fewer than 8 between them, products take half as long again. While it is not,
these cost nothing."""


def across_panels(rows: Dim, columns: Dim) -> bool | tuple[tuple[Dim, int], ...]:
    """Whether threads take panels, and not strips of rows: then each copies all rows, and else all columns. Where only a run can
    tell, the sizes that it asks, with the least that each has to be."""
    more = columns - rows
    return more >= 0 if isinstance(more, int) else ((more, 0),)


def tile_groups(units: Dim, others: Dim) -> Dim:
    """Into how many groups the side that a launch does not go over is cut, in the number of threads: as many as give each thread
    two units, but none of fewer than two strips or panels."""
    few = ceildiv(2 * THREADS, dim_max(units, 1))
    return dim_max(1, dim_min(few, floordiv(others, 2)))


def bytes_pay(units: Dim, others: Dim, groups: Dim) -> tuple[tuple[Dim, int], ...]:
    """`amx_pays` for bytes: for each block of 64 of the depth a strip and a panel take 64 cycles, and copying a strip 40, where
    vectors take 480."""
    most, each = ceildiv(units * groups, THREADS), ceildiv(others, groups)
    return ((60 * units * others - THREADS * (8 * most * each + 5 * most), 0),)


FEW_THREADS = 3
"""Threads beside which tile registers multiply at full speed. With 4 to 16 threads, on virtual CPUs of a busy host, MiniLM, BERT,
GPT-2 and Whisper are as fast with vectors, or faster: a lower clock for tiles, or cores that share them."""


def amx_pays(units: Dim, others: Dim, groups: Dim) -> tuple[tuple[Dim, int], ...]:
    """What a run has to ask, beside sizes: whether the thread with most to do is quicker with tile registers. For each place of
    the depth the products of a strip and a panel take 3.6 ns, and copying one of these 4; vectors take twice as long as tiles
    where both wait for memory (a fifth longer beside many threads), but are shared out evenly. So the last bits of a result may
    depend on the number of threads."""
    most, each = ceildiv(units * groups, THREADS), ceildiv(others, groups)
    vectors = 12 + 8 * dim_max(dim_min(FEW_THREADS + 1 - THREADS, 1), 0)
    return ((vectors * units * others - THREADS * (10 * most * each + 11 * (most + each)), 0),)
