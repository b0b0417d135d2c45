"""Heuristics for AMX: which contractions use it, and the copies, accumulators and stores that overlap with them."""

from __future__ import annotations

from burn.codegen.cpu.costs import Costs
from burn.codegen.cpu.matmul.bf16_pairs import PAIR
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.matmul.vnni import VNNI
from burn.codegen.cpu.target import Target
from burn.codegen.host.launches import THREADS
from burn.dialect.dims import Dim, ceildiv, coefficient, dim_max, dim_min, factor, floordiv, product
from burn.kernels.body import EXPENSIVE, Apply, ContractionKernel, Convert, walk

FEW_BITS_ROWS = 33
"""Rows from which weights of a few bits use tile registers: more than a strip. They are converted to floats in any case."""

FEWEST_SIZES = (32, 32, 32)
"""The lower limit for autotuning: below it tile registers are mostly empty."""


def tile_sizes(target: Target) -> tuple[int, int, int]:
    """Rows, columns and depth from which a contraction uses tile registers; smaller ones copy more than they multiply. With
    96 columns and a depth of 96, vectors are as fast for a thousand rows, and a third faster for 128."""
    return target.costs.amx_rows, target.costs.amx_columns, target.costs.amx_depth


def few_bits_sizes(target: Target) -> tuple[int, int, int]:
    """The same for weights of a few bits."""
    return FEW_BITS_ROWS, target.costs.amx_columns, target.costs.amx_depth


def amx_conditions(
    kernel: ContractionKernel, target: Target, least: tuple[int, int, int] | None = None
) -> tuple[tuple[Dim, int], ...] | None:
    """Returns the conditions for tile registers, or None if a contraction cannot use them. The CPU must have them, both
    operands must be copied by whole vectors, and the work must outweigh the copies. The conditions are sizes known only
    at run time, each with its minimum. least: in place of `tile_sizes`."""
    if not target.tiles or target.small:
        return None
    tiled = Tiled.of(kernel, 32)
    if kernel.dtype == "int32" or (tiled is not None and tiled.run > 1):
        return _run_conditions(tiled)
    if kernel.dtype != "float32":
        return None
    if tiled is None or not tiled.rows or tiled.lhs.dtype != "float32" or tiled.rhs.dtype != "float32":
        return None
    if tiled.outer or tiled.valid:
        return None  # windows make short runs of the depth and share pixels: reading them directly costs less
    if not _has_contiguous_operand(tiled) or not (
        tiled.has_contiguous_columns or coefficient(tiled.rhs.offset, tiled.inner) == 1
    ):
        return None
    if tiled.blocks is not None and factor(tiled.inner.extent) % 32 != 0:
        return None  # words of the depth come in pairs, half a register row apart
    if tiled.blocks is not None and tiled.blocks.dtype != "uint8":
        return None  # infinite weights times the parts of a number that are 0 would be NaN
    return fill_tiles(
        product([v.extent for v in tiled.rows]), tiled.column.extent, tiled.inner.extent, least or tile_sizes(target)
    )


def _run_conditions(tiled: Tiled | None) -> tuple[tuple[Dim, int], ...] | None:
    """The same for contractions of int8 and bfloat16, whose registers load rows of 64 bytes directly from panels."""
    if tiled is None or tiled.run == 1 or tiled.run != TILE_RUNS[tiled.dtype] or not tiled.rows:
        return None
    if tiled.byte_blocks is None:
        return None
    return bytes_fill(product([v.extent for v in tiled.rows]), tiled.column.extent, tiled.run_bytes)


TILE_RUNS = {"int32": VNNI, "float32": PAIR}
"""Depth elements in four bytes of a tile register, by the type of the accumulators."""

BYTE_SIZES = (16, 32)
"""Rows and columns from which contractions of int8 and bfloat16 use tile registers: a strip has 32 of each."""


def bytes_fill(rows: Dim, columns: Dim, line: Dim) -> tuple[tuple[Dim, int], ...] | None:
    """Returns the conditions for a contraction of int8 or bfloat16 with `line` contiguous bytes of lhs to use tile
    registers, or None."""
    if not isinstance(line, int) or line == 0 or line % 64:
        return None
    conditions = [
        (size, least) for size, least in zip((rows, columns), BYTE_SIZES, strict=True) if factor(size) < least
    ]
    return None if any(isinstance(size, int) for size, _ in conditions) else tuple(conditions)


def fill_tiles(rows: Dim, columns: Dim, depth: Dim, least: tuple[int, int, int]) -> tuple[tuple[Dim, int], ...] | None:
    """Returns None if a matmul is too small for tile registers, otherwise the sizes to check at run time."""
    conditions = [(size, n) for size, n in zip((rows, columns, depth), least, strict=True) if factor(size) < n]
    return None if any(isinstance(size, int) for size, _ in conditions) else tuple(conditions)


def _has_contiguous_operand(kernel: Tiled) -> bool:
    if coefficient(kernel.lhs.offset, kernel.inner) == 1:
        return True
    last = kernel.rows[-1]
    whole = len(kernel.rows) == 1 or (isinstance(last.extent, int) and last.extent % 16 == 0)
    return whole and coefficient(kernel.lhs.offset, last) == 1


def tile_part(depth: Dim, block: int, target: Target) -> int:
    """The depth accumulated at a time: whole blocks, in equal parts. Many models' depths fit in one part, so that no accumulators
    are stored."""
    most = max(1, target.costs.amx_part // block) * block
    if not isinstance(depth, int):
        return most
    parts = max(1, -(-depth // most))
    return max(1, -(-depth // (parts * block))) * block


def tile_strips(strips: Dim, size: int, target: Target) -> int:
    """Strips of rows, each of `size` bytes, that are copied together; with panels and other operands they fit in a second-level
    cache."""
    most = max(1, target.costs.amx_block // size)
    if not isinstance(strips, int):
        return most
    blocks = max(1, -(-strips // most))
    return max(1, -(-strips // blocks))


TILE_PANELS = 200 * 1024
"""Bytes of panels copied together if they are not contiguous, so that longer runs of a row are read at a time."""


def tile_panels(kernel: Tiled, size: int) -> int:
    """Panels, each of `size` bytes, that are copied together."""
    panels, most = kernel.panel.extent, max(1, TILE_PANELS // size)
    if kernel.packed or kernel.blocks is not None:
        return 1
    return max(1, min(most, panels)) if isinstance(panels, int) else most


TILE_STRIPS = 8
"""The fewest strips of rows of a thread if there are many."""


TILE_UNITS = 4
"""The most units of a panel that are copied during the multiplications of a block."""


def tile_copies(kernel: Tiled, units: int, strips: int) -> int:
    """Units of the next panel (`units` per block) that are copied during the multiplications of a block: enough for a
    thread's fewest strips. Only packed panels are contiguous; others are copied beforehand, several together."""
    in_one_piece = kernel.packed or kernel.blocks is not None
    return min(TILE_UNITS, -(-units // min(strips, TILE_STRIPS))) if in_one_piece else 0


TILE_CODE = 1600
"""The most epilogue operations that overlap with the multiplications of a block."""


def overlapped_rows(kernel: Tiled, part: int, depth: int | None) -> int:
    """Rows of a strip of 32 that are written during the multiplications of a block. A part of the depth has `part`
    of its `depth` blocks. A power of two, such that the last part has enough blocks for all rows."""
    if depth is None:
        return 0
    last = max(1, depth - (max(1, -(-depth // part)) - 1) * part)
    rows = next(n for n in (2, 4, 8, 16, 32) if n * last >= 32)
    nodes = [node for node in walk(*(w.value for w in kernel.epilogue)) if isinstance(node, Apply | Convert)]
    cost = sum(32 if isinstance(n, Apply) and n.function in EXPENSIVE else 1 for n in nodes)
    return rows if 2 * rows * (cost + 4) <= TILE_CODE else 0


def tile_held(size: int, target: Target) -> int:
    """Panels whose accumulators, of `size` bytes each, are stored between parts."""
    return max(1, target.costs.held // size)


def tile_space(target: Target) -> int:
    """No-ops after each tile instruction. While the core's other hardware thread is busy, tile instructions issued together
    wait for each other: with fewer than 8 instructions between them, contractions take 1.5 times as long. Otherwise no-ops
    cost nothing."""
    return target.costs.amx_space


def across_panels(rows: Dim, columns: Dim) -> bool | tuple[tuple[Dim, int], ...]:
    """True if threads take panels instead of strips of rows: then each copies all rows, otherwise all columns. If that
    depends on sizes known only at run time: the sizes to check, each with its minimum."""
    more = columns - rows
    return more >= 0 if isinstance(more, int) else ((more, 0),)


def tile_groups(units: Dim, others: Dim) -> Dim:
    """The number of groups into which the other dimension is split, as an expression of the number of threads. Each
    thread gets two units, and no group has fewer than two strips or panels."""
    few = ceildiv(2 * THREADS, dim_max(units, 1))
    return dim_max(1, dim_min(few, floordiv(others, 2)))


def bytes_pay(units: Dim, others: Dim, groups: Dim, dtype: str) -> tuple[tuple[Dim, int], ...]:
    """`amx_pays` for bytes and bfloat16, with accumulators of this type: per 64 bytes of depth, a strip and a panel take
    64 cycles, and copying a strip 40. Vectors take 480 for bytes. For bfloat16 they take 1024: one instruction a cycle."""
    most, each = ceildiv(units * groups, THREADS), ceildiv(others, groups)
    vectors = 60 if dtype == "int32" else 128
    return ((vectors * units * others - THREADS * (8 * most * each + 5 * most), 0),)


def amx_pays(units: Dim, others: Dim, groups: Dim, costs: Costs) -> tuple[tuple[Dim, int], ...]:
    """Run-time conditions, besides sizes, for tile registers to be faster for the busiest thread. Per depth element, a
    strip and a panel take 3.6 ns, and copying one of these 4. Vectors take twice as long if both wait for memory (a
    fifth longer with many threads), but are distributed evenly. So the last bits of a result may depend on the number
    of threads. With 4 to 16 threads, on virtual CPUs of a busy host, vectors are as fast or faster for MiniLM, BERT, GPT-2 and
    Whisper: tiles lower the clock, or cores share them."""
    most, each = ceildiv(units * groups, THREADS), ceildiv(others, groups)
    vectors = costs.amx_vectors + costs.amx_memory * dim_max(dim_min(costs.amx_threads + 1 - THREADS, 1), 0)
    return ((vectors * units * others - THREADS * (10 * most * each + 11 * (most + each)), 0),)
