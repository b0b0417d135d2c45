"""Heuristics for matmuls: the tile, by a cost model, split-K, and sums of single columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.functions import EIGHTS as EIGHT_BITS
from burn.codegen.triton.functions import narrowed, narrowed_bytes
from burn.codegen.triton.heuristics.device import ENOUGH, LEAST
from burn.codegen.triton.heuristics.few_bits import is_row
from burn.codegen.triton.heuristics.fragments import is_few_rows
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely, power_of_two
from burn.dialect.dims import Dim, LoopVar, coefficient, estimate, product
from burn.kernels.body import ContractionKernel, Load, walk


@dataclass(frozen=True)
class Tile:
    """A block matmul: its sizes, the warps that share it, and its pipeline stages. `speed`: the fraction of a
    processor's peak throughput in the inner loop; `finish`: the epilogue's time per element relative to several tiles
    per processor. Both are measured."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    speed: float = 1.0
    finish: float = 1.0


HALF_TILES = (
    Tile(128, 256, 64, 8, 3, 1.0, 1.4),
    Tile(128, 128, 64, 8, 3, 0.65),
    Tile(64, 256, 64, 4, 4, 0.7, 1.6),
    Tile(128, 64, 64, 4, 3, 0.45),
    Tile(64, 128, 64, 4, 4, 0.48),
    Tile(64, 64, 128, 4, 3, 0.38),
    Tile(64, 32, 64, 4, 4, 0.18),
    Tile(32, 64, 128, 4, 4, 0.19),
    Tile(16, 128, 128, 4, 4, 0.19),
    Tile(32, 32, 128, 4, 4, 0.115),
    Tile(16, 64, 128, 4, 4, 0.125),
    Tile(16, 32, 256, 4, 4, 0.07),
    Tile(256, 32, 64, 8, 3, 0.2, 0.75),
    Tile(128, 16, 64, 4, 3, 0.12, 0.8),
)
"""Tiles for tensor cores, 16 bits per element. The last two are for images with few channels: 401,408 rows of 64 elements times
8, 16 and 32 columns took 80, 50 and 23 us in the next best tile, and 16, 17 and 21 us in one of these."""

EIGHTS = (
    Tile(256, 128, 128, 8, 3, 1.0),
    Tile(128, 128, 128, 8, 4, 0.9),
    Tile(64, 128, 128, 4, 4, 0.75),
    Tile(64, 64, 128, 4, 4, 0.5),
    Tile(32, 64, 128, 4, 4, 0.25),
    Tile(16, 64, 256, 4, 4, 0.12),
)
"""The same for 8 bits per element. Tensor core results are added to float32 accumulators, for which only tall tiles
have registers."""

SINGLES = (
    Tile(128, 64, 16, 8, 3, 1.0),
    Tile(64, 64, 32, 4, 3, 0.8),
    Tile(32, 64, 32, 4, 3, 0.5),
    Tile(32, 32, 32, 4, 3, 0.3),
    Tile(16, 64, 32, 4, 3, 0.25),
    Tile(16, 32, 32, 2, 3, 0.15),
    Tile(16, 16, 64, 2, 3, 0.1),
)
"""Tiles for float32 matmuls in full precision, without tensor cores."""

RATES = {8: 1e7, 16: 6e6}

SINGLE_RATE = 2.5e5
"""Operations per microsecond of a processor at speed 1: with tensor cores, by the bits of an element, and without."""

LATENCY = 2.0
"""Microseconds before a kernel's first multiplication, and of its epilogue."""

FINISH = 1.7e-4
"""Microseconds in which a processor stores one element of a tile, including the epilogue's loads."""

BYTES = 2.5e6
"""Bytes per microsecond of GPU memory."""

STEP, DEEPER = 0.8, 16
"""Microseconds of a step along the depth of a convolution's weight gradient in a small tile: its loads take as long, however few
they are. It counts if the depth is so many times the rows and the columns."""

ALONE = 128 * 256
"""Elements of a tile that fills a processor, so that no other program runs there."""

ANY = 4096
"""The least value assumed for a symbolic size."""

SHALLOW = 32
"""The least depth of a tile that is reduced to divide a loop's extent."""

ROOM = 64
"""The most elements of a tile per thread if expensive functions follow. They need registers besides the accumulators, and
spills take up to three times the time of the whole matmul."""

GROUP = 8
"""Rows of tiles that are processed together, column by column, so that their operands stay in the cache."""

WORTH = 0.85
"""Split-K is used if it takes at most this fraction of the unsplit time."""


def size_of(size: Dim) -> int:
    """A size, or an estimate of a size with a name."""
    return size if isinstance(size, int) else max(ANY, estimate(size))


def _times(
    m: int, n: int, k: int, times: int, bits: int, processors: int, costly: bool = False
) -> list[tuple[Tile, float]]:
    """The tiles of a matmul with estimated microseconds, the fastest one first. costly: as below."""
    rate = RATES.get(bits, SINGLE_RATE)

    def time(tile: Tile) -> float:
        area = tile.rows * tile.columns
        rounds = -(-m // tile.rows) * -(-n // tile.columns) * max(1, times) / processors
        full = max(1, ceil(rounds))
        if area < ALONE:  # concurrent tiles hide each other's latency
            full = (max(1.0, rounds) + full) / 2
        return LATENCY + full * area * (2 * k / (rate * tile.speed) + FINISH * tile.finish)

    tiles = [
        t
        for t in {8: EIGHTS, 16: HALF_TILES}.get(bits, SINGLES)
        if not costly or t.rows * t.columns <= ROOM * 32 * t.warps
    ]
    return sorted(((tile, time(tile)) for tile in tiles), key=lambda timed: timed[1])


def tiles_by_time(
    rows: Dim,
    columns: Dim,
    depth: Sequence[LoopVar],
    batch: Dim,
    bits: int,
    costly: bool = False,
    processors: int = USUAL_ABILITIES.processors,
) -> list[tuple[Tile, float]]:
    """See `matmul_tile`; each with estimated microseconds, the fastest one first."""
    k = size_of(product([v.extent for v in depth]))
    return _times(size_of(rows), size_of(columns), k, batch if isinstance(batch, int) else 1, bits, processors, costly)


def matmul_tile(
    rows: Dim,
    columns: Dim,
    depth: Sequence[LoopVar],
    batch: Dim,
    bits: int,
    costly: bool = False,
    processors: int = USUAL_ABILITIES.processors,
) -> Tile:
    """The tile of a matmul. Its depth is at most the matmul's, and divides that of the innermost loop unless it would
    become too shallow. bits: of an element; costly: expensive functions follow."""
    return fitted(tiles_by_time(rows, columns, depth, batch, bits, costly, processors)[0][0], depth, bits)


def fitted(best: Tile, depth: Sequence[LoopVar], bits: int) -> Tile:
    """A tile with a depth that suits the contraction's loops."""
    k = size_of(product([v.extent for v in depth]))
    shallow = max(2 * LEAST if bits == 8 else LEAST, min(best.depth, power_of_two(k)))
    loops = [v.extent for v in depth if v.extent != 1]
    inner = loops[-1] if len(loops) > 1 else 0
    if isinstance(inner, int) and inner % SHALLOW == 0:
        while inner % shallow:
            shallow //= 2
    stages = min(best.stages, max(2, -(-k // shallow)))
    return replace(best, depth=shallow, stages=stages)


def by_columns(kernel: ContractionKernel, processors: int) -> bool:
    """True if each column of a matmul is summed separately. A single row would fill no tile, and an rhs with contiguous
    depth is then read at memory bandwidth."""
    if product([v.extent for v in kernel.rows]) != 1 or narrowed((kernel.lhs, kernel.rhs), kernel.dtype, EIGHT_BITS):
        return False
    count = product([v.extent for v in (*kernel.batch, kernel.column)])
    columns = [n for n in walk(kernel.rhs) if isinstance(n, Load)]
    along = all(coefficient(n.offset, kernel.depth[-1]) == 1 for n in columns)
    return along and (not isinstance(count, int) or count >= ENOUGH * processors)


@dataclass(frozen=True)
class Shared:
    """A warp-specialised tile: groups of 64 rows, `across` times `block_columns` columns, the depth of a block and the pipeline
    stages. Then the registers of a group's threads, and of all threads at entry. `speed`, `finish`: as in `Tile`. filled: the
    least share of the processors that get a tile; a tile with such a share is for depths that are not split."""

    groups: int
    across: int
    block_columns: int
    depth: int
    stages: int
    registers: int
    entering: int
    speed: float = 1.0
    finish: float = 1.0
    filled: float = 0.0


SHARED = (
    Shared(2, 2, 128, 64, 4, 240, 168, 1.35, 0.6),
    Shared(3, 2, 128, 64, 3, 160, 128, 1.35, 0.6),
    Shared(3, 1, 128, 64, 5, 160, 128, 1.2, 0.6),
    Shared(2, 1, 128, 64, 6, 240, 168, 1.1, 0.6, 0.75),
)
"""Tiles for half precision. The registers are those of 65,536 that the producer warp leaves. Narrow tiles give more
programs if wide ones would leave processors idle. The gradient of a weight of 2048 by 1024 elements over 4,096 rows took 34 us in
the third and 26 in the last one. With fewer tiles than processors, matmuls without warp specialisation are faster: 1024 by 1024
elements took 19 us, and 24 in the last tile and in one of 64 columns."""

START = 4.0
"""Microseconds before such a kernel's first multiplication, and of its epilogue."""

ADDRESSES, NARROWEST = 8, 8
"""Registers of a thread for addresses, and the fewest columns of a matmul's accumulators."""

DEEP, BROAD = 256, 256
"""The depth and the columns from which on warp specialisation is considered."""


def shared_tile(
    rows: Dim, columns: Dim, depth: Dim, parts: Dim, processors: int, hints: SizeHints = UNKNOWN
) -> Shared | None:
    """The tile of a warp-specialised matmul in half precision; None if it gains nothing. depth: of one of the parts."""
    m, n, k, times = (size_of(likely(size, hints)) for size in (rows, columns, depth, parts))
    if not _may_be_specialised(k, n):
        return None
    best, taken = _shared_times(m, n, k, times, processors)[0]
    return best if taken < _times(m, n, k, times, 16, processors)[0][1] else None


def columns_at_once(shape: Shared, loads: int) -> int:
    """The columns of a block that a group stores at once. A thread holds half as many elements of each of the epilogue's `loads`
    beside its accumulators; if they do not fit the registers, spills take longer than the matmul."""
    free = shape.registers - shape.across * shape.block_columns // 2 - ADDRESSES
    most, columns = 2 * free // max(1, loads), shape.block_columns
    while columns > most and columns > NARROWEST:
        columns //= 2
    return columns


def usual_time(rows: int, columns: int, depth: int, processors: int) -> float:
    """Microseconds of a matmul in half precision without warp specialisation, its depth split so that all processors are busy."""
    return min(
        _times(rows, columns, -(-depth // parts), parts, 16, processors)[0][1]
        + (LATENCY + 8 * parts * rows * columns / BYTES if parts > 1 else 0.0)
        for parts in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256)
    )


def _may_be_specialised(depth: int, columns: int) -> bool:
    return depth >= DEEP and columns >= BROAD


def _shared_times(m: int, n: int, k: int, times: int, processors: int) -> list[tuple[Shared, float]]:
    """Like `_times`, for warp-specialised tiles."""

    def tiles(shape: Shared) -> int:
        return -(-m // (shape.groups * 64)) * -(-n // (shape.across * shape.block_columns)) * times

    def time(shape: Shared) -> float:
        area = shape.groups * 64 * shape.across * shape.block_columns
        rounds = ceil(tiles(shape) / processors)
        return START + rounds * area * (2 * k / (RATES[16] * shape.speed) + FINISH * shape.finish)

    shapes = [s for s in SHARED if not s.filled or (times == 1 and tiles(s) >= s.filled * processors)]
    return sorted(((shape, time(shape)) for shape in shapes), key=lambda timed: timed[1])


def _is_of_windows(kernel: ContractionKernel) -> bool:
    """True for the gradient of a convolution's weight: the depth is several loops over pixels, and taps or channels are adjacent
    rows. Warp-specialised kernels, which multiply matrices, are no alternative."""
    loads = [node for node in walk(kernel.lhs) if isinstance(node, Load)]
    adjacent = any(coefficient(node.offset, v) == 1 for node in loads for v in kernel.rows)
    return adjacent and len([v for v in kernel.depth if v.extent != 1]) > 1


def split_count(
    kernel: ContractionKernel,
    counts: Sequence[int],
    hints: SizeHints = UNKNOWN,
    abilities: Abilities = USUAL_ABILITIES,
) -> int:
    """The number of splits of a matmul's depth, one of `counts` or 1: partial results are stored, loaded and added.
    abilities: of the GPU."""
    processors = abilities.processors
    if by_columns(kernel, processors) or is_row(kernel) or is_few_rows(kernel, hints):
        return 1
    rows, depth, batch = (product([v.extent for v in loops]) for loops in (kernel.rows, kernel.depth, kernel.batch))
    m, n, k = (size_of(likely(size, hints)) for size in (rows, kernel.column.extent, depth))
    times = batch if isinstance(batch, int) else 1
    operands = (kernel.lhs, kernel.rhs)
    if narrowed(operands, kernel.dtype, EIGHT_BITS) or narrowed_bytes(operands, kernel.dtype):
        return 1
    bits = 16 if narrowed(operands, kernel.dtype) else 32
    windows = _is_of_windows(kernel)

    def time(parts: int) -> float:
        deep, many = -(-k // parts), times * parts
        tile, taken = _times(m, n, deep, many, bits, processors)[0]
        if windows and tile.rows * tile.columns < ALONE and k >= DEEPER * max(m, n):
            taken = max(taken, LATENCY + STEP * deep / fitted(tile, kernel.depth, bits).depth)
        if abilities.warp_specialised and bits == 16 and not windows and _may_be_specialised(deep, n):
            taken = min(taken, _shared_times(m, n, deep, many, processors)[0][1])
        return taken if parts == 1 else taken + LATENCY + 8 * parts * m * n * times / BYTES

    best = min((1, *counts), key=time)
    return best if time(best) < WORTH * time(1) else 1
