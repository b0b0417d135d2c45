"""Every choice of the Triton code generator that is a matter of speed and not of meaning, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from burn.codegen.triton.functions import EIGHTS as EIGHT_BITS
from burn.codegen.triton.functions import narrowed
from burn.dialect.dims import Dim, LoopVar, coefficient, estimate, product
from burn.kernels.body import ContractionKernel, Load, walk
from burn.kernels.wants import Wants

WARPS = 4

STAGES = 3
"""Blocks of a product that are on their way from memory at once."""

PROCESSORS = 132
"""Of the card: as many tiles are worked on at a time."""

ENOUGH = 2 * PROCESSORS
"""Programs that keep a card busy."""


@dataclass(frozen=True)
class Places:
    """What a program of a loop kernel takes: places of the parallel loops, places of a stage's loops (or, where a block is
    turned, of the loop across), and the warps that share it."""

    rows: int
    columns: int = 1
    warps: int = WARPS


ELEMENTS = 1024
"""Elements of a block without loops inside: eight a thread, which 16 bytes of halves are."""

FEW = 256
"""The same where there is little to do."""

TILE = 2048
"""Elements of a block of rows and columns."""

HELD = 16384
"""A row of up to so many elements is held as a whole, so that nothing is read twice."""

NEAR = 4
"""Steps in memory, in elements, up to which neighbours share what is fetched."""

APART = 8
"""Steps from which on they do not."""

TURNED = 8
"""Length of an axis from which on blocks are turned in shared memory."""

SQUARE = 64
"""Side of a block that is turned: a line of the memory's, 128 bytes, of halves."""

SIDE = 64
"""Columns of a block that are summed downwards, side by side."""


def power_of_two(number: int) -> int:
    """The next one upwards."""
    return 1 << max(0, number - 1).bit_length()


def _warps(elements: int) -> int:
    """16 elements a thread, or fewer where there are no more than four warps then."""
    return max(1, min(4, elements // 64), min(16, elements // 512))


def _few(count: Dim, block: int) -> bool:
    return isinstance(count, int) and count < ENOUGH * block


def flat(count: Dim, bytes_: int) -> Places:
    """bytes_: of the widest element."""
    if _few(count, ELEMENTS):
        return Places(FEW)
    return Places(ELEMENTS * 2 if bytes_ == 1 else ELEMENTS)


def square(rows: Dim, columns: Dim, others: Dim) -> Places:
    """A block that is turned."""
    side = SQUARE // 2 if _few(rows * columns * others, SQUARE * SQUARE) else SQUARE
    high, wide = (min(side, power_of_two(d)) if isinstance(d, int) else side for d in (rows, columns))
    most = side * side
    if high < side:
        wide = _up_to(columns, most // high)
    elif wide < side:
        high = _up_to(rows, most // wide)
    return Places(wide, high, _warps(high * wide))


def _up_to(size: Dim, most: int) -> int:
    return min(most, power_of_two(size)) if isinstance(size, int) else most


def held(length: Dim, turned: bool, shared: bool) -> bool:
    """Whether rows are held as a whole. shared: more than one stage goes along them."""
    if not isinstance(length, int) or length < 1:
        return False
    if turned:
        return power_of_two(length) <= (HELD // 16 if shared else 2 * TILE // SIDE)
    padded = power_of_two(length)
    return length <= TILE or (padded <= HELD and (shared or padded * 3 <= length * 4))


BRIEF = 16
"""Places of a row up to which they are gone through step by step; sizes up to that are numbers in the text (`parametrize`)."""


def brief(length: Dim) -> bool:
    """Whether a row has few places (those of a window): beside those of its neighbours, each is read as long runs of memory."""
    return isinstance(length, int) and 1 < length <= BRIEF


def rows_and_columns(rows: Dim, length: Dim, turned: bool, shared: bool) -> Places:
    """rows: places of the parallel loops; length: of the rows, the longest one's."""
    whole = power_of_two(length) if isinstance(length, int) and held(length, turned, shared) else 0
    if turned:
        wide = _up_to(rows, SIDE)
        while wide > 16 and (wide * whole > HELD // 2 or _few(rows, wide)):
            wide //= 2
        columns = whole or _up_to(length, (4 if _few(rows, wide) else 2) * TILE // wide)
        return Places(wide, columns, _warps(wide * columns))
    columns = whole or _up_to(length, TILE * 2 if _few(rows, 1) else TILE)
    most = max(1, TILE // columns)
    while most > 1 and most * columns > FEW and _few(rows, most):
        most //= 2
    block = _up_to(rows, most)
    return Places(block, columns, _warps(block * columns))


FOLDED = 4096
"""Elements of a block of rows that are folded: with what they come to, and what is on its way, they fill a thread's registers."""

AHEAD = 64 * 1024
"""Bytes of shared memory, at most, in which the next rows wait: beside those of another program, and on smaller cards."""


def folded(length: int, block: Dim, bytes_: int) -> tuple[Places, int]:
    """Of rows that are gone through one after another, in blocks of `block`; and of how many steps what they read is on its
    way at once. bytes_: that are read for each element of a row."""
    columns = power_of_two(length)
    rows = _up_to(block, max(1, FOLDED // columns))
    elements = rows * columns
    stages = max(n for n in (1, 2, 3) if (n - 1) * elements * bytes_ <= AHEAD)
    return Places(rows, columns, max(4, min(16, elements // 512))), stages


SUMMING = PROCESSORS * 3 // 2
"""Programs that sum columns, at most: a quarter of what run at once, as a size that has a name may well be four times as large.
Few that go through many rows are faster than many: each has a beginning and an end of its own, and what they come to is summed,
too."""

LONGEST = 32
"""Steps of such a program at most."""


def summed_rows(kept: int, rows: Dim) -> int:
    """Rows of a block of columns' sums: a whole number of steps. Names count as few: twice the rows are a second wave, half of
    them half a card."""
    blocks = max(1, SUMMING * SIDE // max(SIDE, kept))
    steps = ceil(estimate(rows, TYPICAL // 2) / (blocks * SIDE))
    return SIDE * min(LONGEST, max(1, steps))


def ragged(rows: Dim, turned: bool) -> Places:
    """Rows whose lengths are read from data, most of them of one element or none: a long one is gone through in many steps."""
    wide, columns = (256, 8) if turned else (64, 32)
    while wide > 16 and _few(rows, wide):
        wide //= 2
    return Places(wide, columns, _warps(wide * columns))


STEPS = 4
"""Blocks of a row that is summed, on their way from memory at once."""

WAITING = 32768
"""Bytes of a processor's shared memory for these, at most: six programs beside each other have that much."""


def ahead(bytes_: int) -> int:
    """How many such blocks of so many bytes."""
    return min(STEPS, WAITING // max(1, bytes_))


IN_TURN = 128
"""Rows of a block whose places are taken one after the other."""

LEAST = 16
"""Rows, columns and depth of a block product at least."""


@dataclass(frozen=True)
class Tile:
    """A block product: its sizes, the warps that share it, and the blocks of the depth that are on their way from memory at once.
    `speed`: what a processor reaches of its arithmetic in the inner loop; `finish`: how much longer the end of each element takes
    than where several tiles are beside each other. Both are measured."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    speed: float = 1.0
    finish: float = 1.0


HALVES = (
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
)
"""Of products on tensor cores, 16 bits an element."""

EIGHTS = (
    Tile(256, 128, 128, 8, 3, 1.0),
    Tile(128, 128, 128, 8, 4, 0.9),
    Tile(64, 128, 128, 4, 4, 0.75),
    Tile(64, 64, 128, 4, 4, 0.5),
    Tile(32, 64, 128, 4, 4, 0.25),
    Tile(16, 64, 256, 4, 4, 0.12),
)
"""The same, 8 bits an element. What tensor cores sum of a block is added to sums in float32, which only tall tiles have
registers for."""

SINGLES = (
    Tile(128, 64, 16, 8, 3, 1.0),
    Tile(64, 64, 32, 4, 3, 0.8),
    Tile(32, 64, 32, 4, 3, 0.5),
    Tile(32, 32, 32, 4, 3, 0.3),
    Tile(16, 64, 32, 4, 3, 0.25),
    Tile(16, 32, 32, 2, 3, 0.15),
    Tile(16, 16, 64, 2, 3, 0.1),
)
"""Of products of float32 in float32's own precision, without tensor cores."""

RATES = {8: 1e7, 16: 6e6}
SINGLE_RATE = 2.5e5
"""Operations that a processor does in a microsecond at speed 1: on tensor cores, by the bits of an element, and without."""

LATENCY = 2.0
"""Microseconds until a kernel's first product, and of its end."""

FINISH = 1.7e-4
"""Microseconds in which a processor takes one element of a tile's sums to memory, what is read beside it included."""

BYTES = 2.5e6
"""That the card's memory moves in a microsecond."""

ALONE = 128 * 256
"""Elements of a tile beside which a processor has room for no other."""

ANY = 4096
"""What a size counts as at least that is not known."""

TYPICAL = 64
"""What each name in it counts as."""

SHALLOW = 32
"""A tile's depth at least, where it is cut to divide a loop's."""

ROOM = 64
"""A thread's elements of a tile, at most, where expensive functions follow: their steps want registers beside the sums, and what
does not fit is put aside in memory, at up to three times the time of the whole product."""

GROUP = 8
"""Rows of tiles that are gone through together, column by column, so that what they read is still near."""

WORTH = 0.85
"""Of the time that a product takes in one piece: what it takes in parts, at most."""


def _size(size: Dim) -> int:
    return size if isinstance(size, int) else max(ANY, estimate(size, TYPICAL))


def _times(m: int, n: int, k: int, times: int, bits: int, costly: bool = False) -> list[tuple[Tile, float]]:
    """The tiles of a product, and about how many microseconds it takes with each, the fastest one first. costly: as below."""
    rate = RATES.get(bits, SINGLE_RATE)

    def time(tile: Tile) -> float:
        area = tile.rows * tile.columns
        rounds = -(-m // tile.rows) * -(-n // tile.columns) * max(1, times) / PROCESSORS
        full = max(1, ceil(rounds))
        if area < ALONE:  # tiles beside each other fill each other's gaps
            full = (max(1.0, rounds) + full) / 2
        return LATENCY + full * area * (2 * k / (rate * tile.speed) + FINISH * tile.finish)

    tiles = [
        t for t in {8: EIGHTS, 16: HALVES}.get(bits, SINGLES) if not costly or t.rows * t.columns <= ROOM * 32 * t.warps
    ]
    return sorted(((tile, time(tile)) for tile in tiles), key=lambda timed: timed[1])


def tiles_by_time(
    rows: Dim, columns: Dim, depth: Sequence[LoopVar], batch: Dim, bits: int, costly: bool = False
) -> list[tuple[Tile, float]]:
    """See `product_tile`; each with about how many microseconds the product takes so, the fastest one first."""
    k = _size(product([v.extent for v in depth]))
    return _times(_size(rows), _size(columns), k, batch if isinstance(batch, int) else 1, bits, costly)


def product_tile(
    rows: Dim, columns: Dim, depth: Sequence[LoopVar], batch: Dim, bits: int, costly: bool = False
) -> Tile:
    """The tile of a product; its depth is no larger than the product's, and divides that of the innermost loop, where it does not
    get too shallow. bits: of an element; costly: whether expensive functions follow the sums."""
    return fitted(tiles_by_time(rows, columns, depth, batch, bits, costly)[0][0], depth, bits)


def fitted(best: Tile, depth: Sequence[LoopVar], bits: int) -> Tile:
    """A tile as deep as suits the loops of a depth."""
    k = _size(product([v.extent for v in depth]))
    shallow = max(2 * LEAST if bits == 8 else LEAST, min(best.depth, power_of_two(k)))
    loops = [v.extent for v in depth if v.extent != 1]
    inner = loops[-1] if len(loops) > 1 else 0
    if isinstance(inner, int) and inner % SHALLOW == 0:
        while inner % shallow:
            shallow //= 2
    stages = min(best.stages, max(2, -(-k // shallow)))
    return replace(best, depth=shallow, stages=stages)


def by_columns(kernel: ContractionKernel) -> bool:
    """Whether each column of a product is summed by itself: of one row no tile would be full, and a right side whose depth lies
    side by side is then read as fast as memory gives it."""
    if product([v.extent for v in kernel.rows]) != 1 or narrowed((kernel.lhs, kernel.rhs), kernel.dtype, EIGHT_BITS):
        return False
    count = product([v.extent for v in (*kernel.batch, kernel.column)])
    columns = [n for n in walk(kernel.rhs) if isinstance(n, Load)]
    along = all(coefficient(n.offset, kernel.depth[-1]) == 1 for n in columns)
    return along and (not isinstance(count, int) or count >= ENOUGH)


def product_parts(kernel: ContractionKernel, counts: Sequence[int]) -> int:
    """Into how many parts the depth of a product is cut, one of `counts` or 1: what they sum up to is written, read and added."""
    if by_columns(kernel):
        return 1
    rows, depth, batch = (product([v.extent for v in loops]) for loops in (kernel.rows, kernel.depth, kernel.batch))
    m, n, k = _size(rows), _size(kernel.column.extent), _size(depth)
    times = batch if isinstance(batch, int) else 1
    sides = (kernel.lhs, kernel.rhs)
    if narrowed(sides, kernel.dtype, EIGHT_BITS):
        return 1
    bits = 16 if narrowed(sides, kernel.dtype) else 32

    def time(parts: int) -> float:
        _, taken = _times(m, n, -(-k // parts), times * parts, bits)[0]
        return taken if parts == 1 else taken + LATENCY + 8 * parts * m * n * times / BYTES

    best = min((1, *counts), key=time)
    return best if time(best) < WORTH * time(1) else 1


@dataclass(frozen=True)
class Block:
    """Rows and keys of a block of attention, the warps that share it, and the blocks of keys that are on their way at once."""

    rows: int
    keys: int
    warps: int = 4
    stages: int = 3


def attention_block(dtype: str, halves: bool, rows: Dim, depth: int) -> Block:
    """dtype: of the sums; depth: of a head, the larger of the two. Products of float64 are formed in registers, all of them at
    once; those of float32 have no tensor cores, and large blocks would not fit the registers."""
    if dtype == "float64":
        return Block(16, 16)
    if not halves:
        return Block(32, 32)
    if isinstance(rows, int) and rows <= 64:
        return Block(max(LEAST, power_of_two(rows)), 64)
    return Block(64, 64) if depth <= 64 else Block(128, 128, 8) if depth <= 128 else Block(64, 32, 8, 2)


@dataclass(frozen=True)
class Roles:
    """Of attention whose warps have roles: places in a block of the axis that is walked over, the blocks that are on their way at
    once, groups of 64 places of the other axis, the registers that each thread of a group has, and those that every thread enters
    with; ahead: whether the scores of a block are formed while the values of the block before are mixed, which takes registers;
    least: rows and keys from which on it gains, as warps with roles take longer to start."""

    walked: int
    stages: int
    groups: int
    registers: int
    entering: int
    ahead: bool
    least: int


ROLES = {64: Roles(128, 3, 3, 160, 128, False, 4096), 128: Roles(128, 2, 2, 240, 168, True, 2048)}
"""By the size of a head. The registers are those of 65,536 that the warp that copies leaves."""

GRADIENT_ROLES = {128: Roles(64, 3, 2, 240, 168, False, 2048)}
"""The same for what keys and values are owed. With heads of 64 blocks of 128 keys are faster that all warps share."""


def roles(table: Mapping[int, Roles], rows: Dim, keys: Dim, depth: int, columns: int) -> Roles | None:
    """What attention of so many rows and keys has of a table, if warps with roles gain there. depth, columns: see `padded`."""
    shape = table.get(max(depth, columns)) if {depth, columns} <= table.keys() else None
    enough = shape is not None and all(isinstance(n, int) and n >= shape.least for n in (rows, keys))
    return shape if enough else None


def gradient_block(halves: bool, of_rows: bool, rows: Dim, keys: Dim, depth: int) -> Block:
    """The same for the way back. of_rows: a program has a block of rows, and walks over keys; else it is the other way about,
    with two sums in registers."""
    if not halves:
        block = Block(32, 32) if depth <= 128 else Block(16, 16)
    elif depth > 128:
        block = Block(64, 32, 8, 2) if of_rows else Block(32, 64, 8, 2)
    elif of_rows:
        block = Block(128, 64, 8)
    else:
        block = Block(128 if depth <= 64 else 64, 64, 4, 2)
    high, wide = (
        min(most, max(LEAST, power_of_two(size))) if isinstance(size, int) else most
        for most, size in ((block.rows, rows), (block.keys, keys))
    )
    return replace(block, rows=high, keys=wide)


WANTS = Wants(
    keep_rows=False,
    columns_apart=True,
    reduce_block=16384,
    reduce_rows=summed_rows,
    long_rows=65536,
    fold_columns=8192,
    fold_blocks=256,
    fold_rows=4,
    repeat_small=True,
    repeat_reads=True,
    sums_together=True,
    joined_parts=4,
    split_keys=128,
    split_rows=64,
    split_programs=132,
    scatter_rivals=65536,
    small_products=("float8_e4m3fn", "float8_e5m2"),
    parts=product_parts,
)
"""A row's values stay in registers, and strided columns are read as they are. A launch costs microseconds, in which thousands of
elements are converted, and a program alone needs ten of them for a row of 65,536 elements. An update that waits for its turn
takes 0.2 of them, in which 65,536 numbers are compared."""
