"""Every choice of the CPU code generator that is a matter of speed and not of meaning, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

from burn.codegen.cpu.panels import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Atom, Dim, LoopVar, ceildiv, coefficient, dim_max, floordiv, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import (
    EXPENSIVE,
    Apply,
    AttentionKernel,
    ContractionKernel,
    Convert,
    Fetched,
    Load,
    LoopKernel,
    Stage,
    Where,
    Write,
    loop_atoms,
    own_dims,
    walk,
)
from burn.kernels.parameters import SMALL
from burn.kernels.wants import Wants

WANTS = Wants(keep_rows=True, columns_apart=False, reduce_block=16384, owed_together=True)
"""A row fits in the cache, and an exponential costs more than to read it back. Columns that lie apart are gathered element by
element: a copy, made once, is cheaper than that for every panel. A block of 16,384
elements takes some microseconds: worth a thread. Heads are many more than threads, and probabilities cost products."""

CHUNK = 2048
"""Elements of a vectorised parallel loop that one iteration of a launch takes."""

BRIEF = 16384
"""Bytes that a program's kernels touch and operations of its products, in all: about a microsecond. See brief.py."""

GRAIN = 16384
"""Scalar operations below which a range is not worth handing to another thread (some microseconds)."""


def choose_lane(kernel: LoopKernel) -> LoopVar | None:
    """The loop whose neighbouring iterations touch neighbouring elements most often."""
    inner = {s.loops[-1] for s in kernel.stages if s.loops}
    if any(s.order != "parallel" for s in kernel.stages):
        inner = set()
    scratch = any(b.role == "scratch" for b in kernel.buffers)  # holds one row: rows cannot be the lanes
    candidates = [] if scratch else list(kernel.parallel[-1:])
    if any(r.kind.startswith("arg") for s in kernel.stages for r in s.reductions):
        pass  # places are compared one by one: only a parallel loop can be the lanes
    elif len(inner) == 1:
        candidates += inner
    scores = [(_score(kernel, v), v) for v in candidates if v.extent != 1]
    best = max(scores, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] > 0 else None


def _score(kernel: LoopKernel, loop: LoopVar) -> float:
    score = 0.0
    for stage in kernel.stages:
        for dim, weight in [(w.offset, 2.0) for w in stage.writes] + [
            (d, 1.0) for node in walk(*stage.scalars) for d in own_dims(node)
        ]:
            if isinstance(dim, int) or loop not in loop_atoms(dim):
                continue
            step = None if any(isinstance(a, Fetched) for a in loop_atoms(dim)) else coefficient(dim, loop)
            score += weight if step == 1 else -0.5 * weight if step is None else -0.25 * weight
    return score


SHORT_ROW = 64
"""Elements up to which a row that is copied is too short for a CPU to see that the next one follows."""


def as_read(kernel: LoopKernel) -> LoopKernel:
    """A copy of short rows with its loops in the order in which the rows are read: what is read far apart is waited for, what is
    written so is not."""
    match kernel.stages:
        case (Stage(loops=(), reductions=(), writes=(Write(value=Load() as load),), order="parallel"),):
            *outer, row = kernel.parallel or (LoopVar("", 1),)
            steps = {v: coefficient(load.offset, v) for v in kernel.parallel}
            short = isinstance(row.extent, int) and row.extent <= SHORT_ROW and steps.get(row) == 1
            known = {v: step for v, step in steps.items() if isinstance(step, int)}
            if short and len(known) == len(steps):
                return replace(kernel, parallel=(*sorted(outer, key=lambda v: -known[v]), row))
    return kernel


SQUARE_NODES = 48
"""Nodes of a body that is printed once for every row of a square."""


def choose_across(kernel: LoopKernel, lane: LoopVar, lanes: int) -> tuple[LoopVar, int] | None:
    """The loop that is taken in squares with the lanes, and how many these then are, if one is."""
    if lanes == 1 or any(s.loops or s.reductions for s in kernel.stages):
        return None
    if len(list(walk(*(scalar for stage in kernel.stages for scalar in stage.scalars)))) > SQUARE_NODES:
        return None
    found, side = crosswise(kernel, lane), short_lanes(lane, lanes) or lanes
    if side == lanes and isinstance(lane.extent, int) and lane.extent < lanes:
        return None
    large = [v for v in found if not isinstance(v.extent, int) or v.extent >= side]
    best = max(large, key=lambda v: len(found[v]), default=None)
    return None if best is None else (best, side)


WINDOW = 64
"""Places of a window up to which its lines are written out."""


def is_window(extents: Sequence[Dim]) -> bool:
    """Whether loops of so many iterations go through a small window."""
    numbers = [n for n in extents if isinstance(n, int)]
    return len(numbers) == len(extents) and max(numbers) <= 16 and prod(numbers) <= WINDOW


PICTURES = 7
"""What the sides of most networks' pictures are multiples of, from 224 down to 7."""


def places_abreast(extent: Dim, window: int, target: Target) -> int:
    """How many neighbouring places of a window's sums are formed at once: as many as leave registers for what is under them, and
    of these counts the one that has the fewest places past the end."""
    most = 8 if target.vector_registers >= 32 else 4
    least = most // 2
    if target.small or window == 1:
        return 1
    if not isinstance(extent, int):
        return min(most, PICTURES)
    return min(range(least, most + 1), key=lambda n: (-(-extent // n) * n, -n))


def crosswise(kernel: LoopKernel, lane: LoopVar) -> dict[LoopVar, list[Load]]:
    """Loads that find neighbouring lanes apart, by the parallel loop that they lie along: read in squares and turned in
    registers, every cache line is read once and as a whole. Loads under a condition are left out."""
    nodes = list(walk(*(scalar for stage in kernel.stages for scalar in stage.scalars)))
    guarded = {id(n) for w in nodes if isinstance(w, Where) for n in walk(w.then, w.otherwise)}
    found: dict[LoopVar, list[Load]] = {}
    for node in nodes if lane in kernel.parallel else ():
        if not isinstance(node, Load) or node.dtype == "bool" or id(node) in guarded:
            continue
        if any(isinstance(a, Fetched) for a in loop_atoms(node.offset)):
            continue
        along = [v for v in kernel.parallel if v != lane and v.extent != 1 and coefficient(node.offset, v) == 1]
        if along and lane in loop_atoms(node.offset) and coefficient(node.offset, lane) != 1:
            found.setdefault(along[0], []).append(node)
    return found


def lanes(kernel: LoopKernel, target: Target) -> int:
    """Lanes that fill a vector register with the widest type the kernel computes on."""
    widest = 4
    for stage in kernel.stages:
        for node in walk(*stage.scalars):
            widest = max(widest, DTYPES[node.dtype].size)
        for reduction in stage.reductions:
            widest = max(widest, DTYPES[reduction.dtype].size)
    return target.lanes(min(widest, 8))


SHORT_LANES = 4


def short_lanes(lane: LoopVar, most: int) -> int | None:
    """Lanes that hold all of a short loop (the three colours of a picture), where that takes less than all that there are:
    squares of so many are turned where otherwise each element is gathered."""
    few = isinstance(lane.extent, int) and SHORT_LANES // 2 < lane.extent <= SHORT_LANES < most
    return SHORT_LANES if few else None


def chunk(kernel: LoopKernel, lane: LoopVar | None) -> int | None:
    """How the lane's loop is cut for a launch; None for one piece."""
    if lane is None or (isinstance(lane.extent, int) and lane.extent <= CHUNK):
        return None
    return CHUNK


def work(kernel: LoopKernel, lane: str, chunk: int | None) -> Dim:
    """Roughly how many scalar operations one iteration of a launch does."""
    total: Dim = 0
    for stage in kernel.stages:
        cost = 0
        for node in walk(*stage.scalars):
            cost += 16 if isinstance(node, Apply) and node.function in EXPENSIVE else 1
        total = total + product([v.extent for v in stage.loops]) * max(cost, 1)
    for loop in kernel.parallel:
        if loop.name == lane:
            total = total * (chunk if chunk is not None else loop.extent)
    outer: dict[Atom, Dim] = dict.fromkeys(kernel.parallel, 0)
    return substitute(total, outer)


def grain(work: Dim, least: int = 1) -> Dim:
    """Iterations that make a range worth a thread: GRAIN / work, at least `least`. Symbolic where the work is."""
    if isinstance(work, int):
        return max(least, GRAIN // max(work, 1))
    return dim_max(least, floordiv(GRAIN, work + 1))  # no work for an empty size, which max(1, work) would not help


# ---- contractions ------------------------------------------------------------------------------------------------------

STAGE = 512
"""Places of the depth for which a tile's rows are converted at a time: eight rows of float32 are 16 KiB and stay in the
first-level cache."""

L2_BLOCK = 384 * 1024
"""Bytes of the left side that should stay in the second-level cache while panels of the right side pass by."""


def tile_rows(rows: Dim, vectors: int, indirect: bool, target: Target) -> int:
    """Rows of the register tile: as many as the registers hold, or fewer where that leaves fewer rows of the last tile over.

    Few different heights are used, so that kernels can be shared; each row has an address register of its own."""
    most = most_rows(vectors, target)
    if not isinstance(rows, int):
        return most
    if rows <= most:
        return max(rows, 1)
    least = most - 1 if rows > 2 * most else most // 2
    return min(range(most, max(1, least) - 1, -1), key=lambda t: -(-rows // t) * tile_cost(t, vectors))


def most_rows(vectors: int, target: Target) -> int:
    return max(1, min((target.vector_registers - 1 - vectors) // vectors, 8))


def tile_cost(rows: int, vectors: int) -> int:
    """What a place of the depth costs a tile. Two multiply-adds, or loads, are done at once."""
    return 2 * rows * vectors + rows + vectors


TOGETHER = 4
"""Places of the depth that a turn of a tile's loop takes: addresses are computed once for them, and what is asked for ahead comes
in whole cache lines. While a core's other thread is busy, it decodes half as many instructions, and then each that is no
multiply-add delays one."""


def places_together(target: Target) -> int:
    """How many those are: one where code is to be short."""
    return 1 if target.small or target.is_slender else TOGETHER


def split_depth(tile: int, vectors: int, target: Target) -> int:
    """Into how many independent sums a small tile splits its depth, so that multiply-adds do not wait for each other."""
    wanted = 8
    return max(1, min(4, wanted // (tile * vectors)))


PART = 1024
"""Places of the depth that a tile is summed over at a time: a panel of two vectors is 128 KiB then, and rows of the left side
that share it are many."""

HELD = 1024 * 1024
"""Bytes of sums that are held between two parts of the depth."""


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
    return tiles * max(1, min(most // tiles, panels) if isinstance(panels, int) else most // tiles)


MANY_ROWS = 64
"""Rows from which on a depth that is long, or may be, is cut."""


def row_block(kernel: Tiled, rows: Dim, tile: int, part: int | None) -> int | None:
    """How many tiles of rows are taken through all panels before the next; None for all of them, panel by panel.

    A right side that fits in the cache stays there: few rows at a time. A larger one passes by once for each block."""
    depth = kernel.places
    width = DTYPES[kernel.lhs.dtype].size
    right = depth * kernel.column.extent * DTYPES[kernel.rhs.dtype].size
    if isinstance(right, int) and right <= L2_BLOCK:
        return 1
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


FETCHED_DEPTH = 64
"""Places of the depth during which what an epilogue touches arrives."""


def fetches_epilogue(kernel: Tiled) -> bool:
    """Whether what a tile's epilogue reads and writes is asked for in front of its sum."""
    depth = product([v.extent for v in (*kernel.outer, kernel.inner)])
    return not isinstance(depth, int) or depth >= FETCHED_DEPTH


ROLLED = 12
"""Operations for every element from which on an epilogue is a loop and not written out for each vector of a tile: straight code
that is longer than the caches of instructions is read anew for every tile."""


def rolls_epilogue(kernel: Tiled, vectors: int) -> bool:
    """Whether a tile's sums, so many vectors, are kept in memory and the epilogue goes over them in a loop."""
    nodes = [node for node in walk(*(w.value for w in kernel.epilogue)) if isinstance(node, Apply | Convert)]
    cost = sum(16 if isinstance(n, Apply) and n.function in EXPENSIVE else 1 for n in nodes)
    return vectors >= 4 and cost >= ROLLED


def parts_masks(target: Target) -> bool:
    """Whether a tile whose rows and columns all exist is written apart, without masks: other instructions than AVX-512's take ten
    times as long to store under one, or know none."""
    return not target.compact and target.vector_bytes > 4 and "avx512f" not in target.features


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


def panel_vectors(target: Target) -> int:
    """Vectors of a panel's columns at most. With 32 registers four beside six rows: an element of the left side is loaded for
    four multiply-adds, and a loop has 1.4 instructions for each, where two vectors beside eight rows have 1.6. Cores that decode
    few at a time, as all do while their other thread is busy, are kept from multiplying by the others. With fewer registers
    two."""
    if target.compact:
        return COMPACT_VECTORS
    return 4 if target.vector_bytes > 4 and target.vector_registers >= 32 else 2


def packed_width(columns: int, dtype: str, target: Target) -> int:
    """Columns of a panel that is packed once, whose sums are of type `dtype`: whole vectors, fewer of them where that wastes
    less."""
    usual, lanes = panel_vectors(target), target.lanes(DTYPES[dtype].size)
    if fits_three(columns, lanes, target):
        return 3 * lanes
    if target.compact:
        return _fitting(columns, (usual, 1), lanes)
    if target.tiles:
        return _fitting(columns, (2, 1), lanes)  # as wide as tile registers take them
    return _cheapest(columns, usual, lanes, target)


def fits_three(columns: int, lanes: int, target: Target) -> bool:
    """Whether a panel has three vectors, beside four rows: with 16 registers, of which two columns leave 12 sums six rows, that
    is seven loads for 12 multiply-adds and not eight, and four streams of rows beside the panel's. Panels come out even."""
    if target.compact or target.vector_bytes != 32 or target.vector_registers != 16:
        return False
    return columns > 0 and columns % (3 * lanes) == 0


def interleaved_width(columns: int, target: Target) -> int:
    """The same where bytes are multiplied in runs, and a run of the left side is read for each vector: four vectors beside six
    rows."""
    most = 4 if target.vector_registers >= 32 else 2
    return _fitting(columns, (most, 2, 1), target.lanes(4))


def panel_width(kernel: ContractionKernel, target: Target) -> int:
    """Columns of a panel where the right side is not packed. One row or two leave registers for more vectors, and longer
    runs of the right side are read at a time."""
    columns, lanes = kernel.column.extent, target.lanes(DTYPES[kernel.dtype].size)
    rows = product([v.extent for v in kernel.rows])
    usual = panel_vectors(target)
    if target.compact:
        return _fitting(columns, (usual, 1), lanes) if isinstance(columns, int) else usual * lanes
    few = {1: 8, 2: 4}.get(rows, usual) if isinstance(rows, int) else usual
    if few > usual:
        return _fitting(columns, (few, usual, 2, 1), lanes) if isinstance(columns, int) else few * lanes
    if isinstance(columns, int) and fits_three(columns, lanes, target):
        return 3 * lanes
    return _cheapest(columns, usual, lanes, target) if isinstance(columns, int) else usual * lanes


def _cheapest(columns: int, most: int, lanes: int, target: Target) -> int:
    """The width, of up to `most` vectors, whose panels take least beside many rows. Of two vectors are wider than one
    everywhere else."""
    if most == 2:
        return _fitting(columns, (2, 1), lanes)

    def cost(vectors: int) -> float:
        rows = most_rows(vectors, target)
        return -(-max(1, columns) // (vectors * lanes)) * tile_cost(rows, vectors) / rows

    return min(range(most, 0, -1), key=cost) * lanes


def _fitting(columns: int, widths: tuple[int, ...], lanes: int) -> int:
    """The first of these widths, in vectors, with which no more than half as much again is read as with one vector."""
    read = {vectors: -(-max(1, columns) // (vectors * lanes)) * vectors for vectors in widths}
    return next(vectors for vectors in widths if read[vectors] <= 1.5 * read[1]) * lanes


# ---- weights of a few bits -------------------------------------------------------------------------------------------------

FEW_ROWS = 8
"""Rows up to which numbers become floats where they are multiplied: beyond, a panel of floats is written, which tile after tile
reads from a cache."""


def few_rows(rows: Dim, kernel: Tiled, target: Target) -> int | None:
    """Rows that are summed together where numbers become floats in registers: all of a few; one where only a run can tell how
    many there are; None for many."""
    vectors = kernel.width // min(target.lanes(4), kernel.width)
    if not isinstance(rows, int):
        return 1
    return rows if 0 < rows <= min(FEW_ROWS, tile_rows(rows, vectors, False, target)) else None


# ---- programs that are to be small ---------------------------------------------------------------------------------------

COMPACT_VECTORS = 4
"""Vectors of a panel beside one row: four sums that do not wait for each other, by five lines of code. Rows would need addresses,
and checks of their own."""

FEW_KERNELS = 12
"""Groups of a program up to which hardly two share a kernel, so that numbers in its code are shorter than arguments."""


def compact_numbers(groups: int) -> int:
    """The largest number that stays in the code of a small program; 1, a stride, where layers are to share kernels."""
    return SMALL if groups <= FEW_KERNELS else 1


# ---- contractions in tile registers --------------------------------------------------------------------------------------

TILE_PART = 384
"""Places of the depth that are summed at a time: a panel is 72 KiB of the second-level cache then, and the depth of many models'
products is one part, so that no sums are held."""

TILE_ROWS = 640 * 1024
"""Bytes that a block of rows is copied to; with panels, and what is read, it fits into a second-level cache of 2 MiB."""

TILE_PANELS = 200 * 1024
"""Bytes that panels are copied to together where they do not lie in one piece: of a row more is read at a time."""

TILE_HELD = 1024 * 1024
"""Bytes of sums that are held between two parts of the depth."""

TILE_LEAST = 8
"""Strips of rows, or panels, of 32 that share a copy of the whole other side."""


TILE_SPACE = 10
"""Instructions that do nothing behind each one of tile registers. While the core's other thread is busy, tile instructions
that are issued together wait for each other: with fewer than 8 between them, products take half as long again. While it is not,
these cost nothing."""

TILE_SIZES = (256, 96, 96)
"""Rows, columns and places of the depth from which on a contraction is summed in tile registers: with fewer, less is multiplied
than copied. Of 64 columns and a depth of 64 vectors are a quarter faster."""


def wants_of_tiles(kernel: ContractionKernel, target: Target) -> tuple[tuple[Dim, int], ...] | None:
    """Whether a contraction is summed in tile registers: where there are some, both sides can be copied by whole vectors, and
    enough is multiplied with what is copied. If so, the sizes that only a run can tell, with the least that each has to be."""
    if not target.tiles or target.small or kernel.dtype != "float32":
        return None
    tiled = Tiled.of(kernel, 32)
    if tiled is None or not tiled.rows or tiled.lhs.dtype != "float32" or tiled.rhs.dtype != "float32":
        return None
    if tiled.outer or tiled.valid:
        return None  # places of a window are short parts of the depth, and of the same pixels: in place they cost less
    if not _tile_rows_at_hand(tiled) or not (tiled.side_by_side or coefficient(tiled.rhs.offset, tiled.inner) == 1):
        return None
    sizes = (product([v.extent for v in tiled.rows]), tiled.column.extent, tiled.inner.extent)
    asked = [(n, least) for n, least in zip(sizes, TILE_SIZES, strict=True) if factor(n) < least]
    return None if any(isinstance(n, int) for n, _ in asked) else tuple(asked)


def factor(size: Dim) -> int:
    """A number that divides a size: it is no smaller, unless it is 0 and nothing is done."""
    return size if isinstance(size, int) else gcd(*(count for _, count in size.terms))


def _tile_rows_at_hand(kernel: Tiled) -> bool:
    if coefficient(kernel.lhs.offset, kernel.inner) == 1:
        return True
    last = kernel.rows[-1]
    whole = len(kernel.rows) == 1 or (isinstance(last.extent, int) and last.extent % 16 == 0)
    return whole and coefficient(kernel.lhs.offset, last) == 1


def tile_part(depth: Dim, block: int) -> int:
    """Places of the depth that are summed at a time: whole blocks, in parts that are alike."""
    if not isinstance(depth, int):
        return TILE_PART
    parts = max(1, -(-depth // TILE_PART))
    return max(1, -(-depth // (parts * block))) * block


def tile_strips(strips: Dim, size: int) -> int:
    """Strips of rows, of so many bytes each, that are copied together."""
    most = max(1, TILE_ROWS // size)
    if not isinstance(strips, int):
        return most
    blocks = max(1, -(-strips // most))
    return max(1, -(-strips // blocks))


TILE_LINES = 4
"""Lines of a panel, of 16 for each block, that are copied beside the products of a block at most."""

TILE_CODE = 1600
"""Operations that an epilogue may have beside the products of a block."""


def tile_copies(kernel: Tiled, strips: int) -> int:
    """Lines of the next panel that are copied beside the products of a block: enough for the strips that a thread is handed at
    least. Only panels that were packed lie in one piece: of others, several are copied together before."""
    return min(TILE_LINES, -(-16 // min(strips, TILE_LEAST))) if kernel.packed else 0


def tile_panels(kernel: Tiled, size: int) -> int:
    """Panels, of so many bytes each, that are copied together."""
    panels, most = kernel.panel.extent, max(1, TILE_PANELS // size)
    if kernel.packed:
        return 1
    return max(1, min(most, panels)) if isinstance(panels, int) else most


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


def tile_held(size: int) -> int:
    """Panels whose sums, of so many bytes, are held between parts."""
    return max(1, TILE_HELD // size)


def across_panels(rows: Dim, columns: Dim, block: int) -> bool:
    """Whether threads take panels, and not strips of rows: where few rows meet many columns."""
    return isinstance(rows, int) and rows <= block and (not isinstance(columns, int) or columns > rows)


def tile_least(units: Dim) -> int:
    return max(1, min(TILE_LEAST, units // 2)) if isinstance(units, int) else TILE_LEAST


# ---- attention ---------------------------------------------------------------------------------------------------------

ATTENTION_KEYS = 128
"""Keys of a block: turned on their side, with their values, they are 64 KiB at a depth of 64."""

ATTENTION_ROWS = 64
"""Rows that share a block of keys: enough that turning them costs a tenth of the products."""

ATTENTION_DOTS = 2
"""Rows up to which keys are not turned: each score is a product along the depth."""


ATTENTION_HELD = 1024 * 1024
"""Bytes of a head's turned keys that a thread keeps while it goes from block to block of rows."""


def prepares_once(kernel: AttentionKernel, rows: Dim, block: int) -> bool:
    """Whether keys are turned once for all rows of a head, and not for each block of them: where there are several, all see all
    keys, and these have room."""
    if kernel.first != 0 or kernel.stop != kernel.key.extent or (isinstance(rows, int) and rows <= block):
        return False
    size = kernel.key.extent * kernel.depth.extent * DTYPES[kernel.dtype].size
    return isinstance(size, int) and size <= ATTENTION_HELD


def attention_tile(rows: Dim, target: Target) -> tuple[int, int]:
    """(rows, vectors) of a register tile. Loop on loop of two vectors beside eight rows keeps the multiply-adds busy."""
    most, vectors = gradient_tile(target)
    return (max(1, min(rows, most)) if isinstance(rows, int) else most), vectors


def weighed_rows(tile: int) -> int:
    """Rows of a tile whose scores become weights side by side: the largest of a row is known last, and an exponential is a long
    chain of instructions that wait for each other."""
    return next(n for n in (3, 2, 1) if tile % n == 0)


def gradient_tile(target: Target) -> tuple[int, int]:
    """The same on the way back, where keys are rows, too."""
    vectors = 2
    return min(8, (target.vector_registers - 1 - vectors) // vectors), vectors


def gradient_rows(tile: int, bounded: bool) -> int:
    """Rows whose probabilities are held together: few where a row's position hides keys, as those of a block meet all keys that
    one of them may see; else enough that what keys are owed is read and written seldom."""
    return (4 if bounded else 8) * tile


def attention_rows(rows: Dim, tile: int) -> int:
    """Rows of an iteration: about ATTENTION_ROWS, a multiple of the tile, and such that the last iteration is no stub."""
    if not isinstance(rows, int):
        return max(1, ATTENTION_ROWS // tile) * tile
    blocks = max(1, -(-rows // ATTENTION_ROWS))
    return max(1, -(-rows // (blocks * tile))) * tile


def attention_keys(keys: Dim, width: int) -> int:
    """Keys of a block: a multiple of the tile's width."""
    most = -(-ATTENTION_KEYS // width) * width
    return most if not isinstance(keys, int) else max(width, min(most, -(-keys // width) * width))
