"""Autotuning candidates besides the heuristics' defaults, the most promising first. They vary the order of a matmul's
tiles, the use of tile registers, panels, blocks of attention, loop cuts and vectorisation.

Each is correct for all sizes. With `Target.exact` none changes the order of additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from burn.codegen.cpu import attention, attention_gradient, loops
from burn.codegen.cpu.heuristics.attention import prepares_once
from burn.codegen.cpu.heuristics.cache_blocking import STAGE, rows_outside
from burn.codegen.cpu.heuristics.lanes import choose_lane, possible_lanes
from burn.codegen.cpu.heuristics.panels import panel_vectors
from burn.codegen.cpu.heuristics.registers import most_rows
from burn.codegen.cpu.matmul.blockwise import Blockwise
from burn.codegen.cpu.matmul.schedule import Schedule, vector_lanes
from burn.codegen.cpu.matmul.tiling import Tiled, panels_of
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, ceildiv, floordiv, product
from burn.dialect.types import DTYPES
from burn.kernels.body import AttentionGradientKernel, AttentionKernel, ContractionKernel, LoopKernel
from burn.kernels.layouts import Convolution, PackedMatmul

NEVER, BY_TIME, ALWAYS = "never", "by time", "always"
"""The use of tile registers for a matmul with suitable sizes: never, if a cost model predicts a gain (the default),
always."""


@dataclass(frozen=True)
class Implementation:
    """The implementation of a matmul. tiles: see above; NEVER if it has no suitable sizes. order: for vectors; None for loops,
    which are those of windows (sliding.py), or plain ones if an operand is more than a load."""

    tiles: str
    order: Schedule | None


def implementations(
    kernel: ContractionKernel, default: Implementation, order: Schedule | None, by_tiles: bool, target: Target
) -> list[Implementation]:
    """Implementations of a matmul. order: the heuristics' order of its tiles. by_tiles: tile registers can compute it."""
    found = [Implementation(tiles, default.order) for tiles in (NEVER, ALWAYS) if by_tiles and tiles != default.tiles]
    if default.order is None and order is not None and not target.exact:
        found.append(Implementation(NEVER, order))
    elif default.order is not None:
        found += [Implementation(NEVER, order) for order in orders(kernel, default.order, target)]
    return found


def orders(kernel: ContractionKernel, default: Schedule, target: Target) -> list[Schedule]:
    """Tile orders of a matmul by vectors."""
    tiled = Tiled.of(kernel, default.width)
    assert tiled is not None
    runs = _changed(tiled, default, target), _wider(kernel, default, target)
    found = [order for part in _alternating(*runs) for order in part]
    if target.exact:
        found = [order for order in found if (order.part, order.split) == (default.part, default.split)]
    return found


def _alternating(*runs: Iterator[Schedule]) -> Iterator[list[Schedule]]:
    """The first of each run, then the second of each, and so on."""
    left = list(runs)
    while left:
        part = [(run, next(run, None)) for run in left]
        left = [run for run, each in part if each is not None]
        yield [each for _, each in part if each is not None]


def _changed(kernel: Tiled, default: Schedule, target: Target) -> Iterator[Schedule]:
    """Orders with panels of the same width."""
    rows = product([v.extent for v in kernel.rows])
    changes = _Orders(kernel, default, rows, target)
    tile, part, block = default.tile, default.part, default.block
    tiles = ceildiv(rows, tile)
    many = tiles if isinstance(tiles, int) else 64
    blocks = [block * 2, max(1, block // 2)] if block else [max(1, many // 2), max(1, many // 4)]
    vectors = default.width // vector_lanes(kernel, target)
    lower = [n for n in (tile - 1, tile + 1, tile - 2, tile // 2) if 1 <= n <= most_rows(vectors, target)]
    lower = [n for n in lower if not isinstance(rows, int) or n <= rows]
    yield from changes.of(block=blocks[0])
    yield from (each for n in lower[:1] for each in changes.of(tile=n))
    yield from changes.of(block=blocks[1])
    if default.transposes:
        yield from changes.of(transposes=False)
    if kernel.has_contiguous_columns and kernel.blocks is None and not kernel.packed:
        yield from changes.of(copies=not default.copies)
    usual = target.costs.depth_part
    for other in (usual // 2, 2 * usual, usual, None):
        if other != part and not (kernel.outer or kernel.valid) and _cuts(kernel, other):
            yield from changes.of(part=other)
    yield from (each for n in lower[1:] for each in changes.of(tile=n))
    yield from changes.of(block=1)
    yield from changes.of(block=None)
    if kernel.batch and kernel.rows and default.block is not None:
        yield from changes.of(rows_outside=not default.rows_outside)
    if default.ahead:
        yield replace(default, ahead=False)
    yield replace(default, fetches=not default.fetches)
    yield from changes.of(block=blocks[0] * 2)


def _cuts(kernel: Tiled, part: int | None) -> bool:
    """True if a depth can be split into such parts. For weights of a few bits a part is unpacked at a time, which must
    not be too long."""
    depth = kernel.inner.extent
    if part is None:
        return kernel.blocks is None
    return not isinstance(depth, int) or depth > part


@dataclass(frozen=True)
class _Orders:
    """Orders that differ from the default in one respect."""

    kernel: Tiled
    default: Schedule
    rows: Dim
    target: Target

    def of(self, **changed: bool | int | None) -> Iterator[Schedule]:
        """The order with these changes, if it is valid."""
        order = replace(self.default.order, **changed)
        if order.transposes and (order.block is None or not self._can_transpose(order.tile)):
            return
        if order.part is not None and order.block is None and not self._holds(order.tile):
            return
        if (
            order.rows_outside
            and "rows_outside" not in changed
            and not rows_outside(self.kernel, order.block, self.target)
        ):
            order = replace(order, rows_outside=False)
        yield Schedule.ordered(self.kernel, self.target, self.rows, order)

    def _can_transpose(self, tile: int) -> bool:
        """True if rows can be transposed in tiles of this size."""
        last = self.kernel.rows[-1]
        whole = len(self.kernel.rows) == 1 or (isinstance(last.extent, int) and last.extent % tile == 0)
        return whole and tile >= 4 and (not tile & (tile - 1) or self.target.vector_bytes >= 32)

    def _holds(self, tile: int) -> bool:
        """True if the accumulators of all tiles of a panel fit in memory between two parts of the depth."""
        rows = ceildiv(self.rows, tile) * tile  # the last tile is whole
        size = rows * self.default.width * DTYPES[self.kernel.dtype].size
        return isinstance(size, int) and size <= self.target.costs.held


def _wider(kernel: ContractionKernel, default: Schedule, target: Target) -> Iterator[Schedule]:
    """Orders with panels of other widths, unless the rhs is packed."""
    if panels_of(kernel) or Blockwise.of(kernel) is not None:
        return
    lanes, columns = target.lanes(DTYPES[kernel.dtype].size), kernel.column.extent
    most = 2 * panel_vectors(target)
    for vectors in sorted(range(1, most + 1), key=lambda n: abs(n * lanes - default.width)):
        width = vectors * lanes
        fits = not isinstance(columns, int) or vectors == 1 or (vectors - 1) * lanes < columns
        tiled = Tiled.of(kernel, width)
        if width != default.width and fits and tiled is not None:
            yield Schedule.of(tiled, target)


# ---- decisions of passes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """The panel width with which `pack` packs an rhs."""

    width: int


@dataclass(frozen=True)
class Winograd:
    """The choice to transform a convolution into the Winograd domain (the pass `winograd`)."""

    used: bool


FEWEST_CHANNELS = 8
"""The fewest channels of a group for which the Winograd domain is tried: for fewer, transforming tiles costs as much as
it saves."""


def winograd(convolution: Convolution, pays: bool) -> list[Winograd]:
    outputs = floordiv(convolution.outputs, convolution.groups)
    few = any(isinstance(n, int) and n < FEWEST_CHANNELS for n in (convolution.channels, outputs))
    return [] if few and not pays else [Winograd(not pays)]


def panels(matmul: PackedMatmul, target: Target) -> list[Panel]:
    """Whole vectors; widths suitable for tile registers first."""
    runs = matmul.interleaved > 1
    lanes = target.lanes(4 if runs else DTYPES[matmul.dtype].size)
    most = 4 if runs and target.vector_registers >= 32 else max(3, panel_vectors(target))
    sizes = [2, 4, 3, 1] if not runs else [4, 2, 1]
    return [Panel(n * lanes) for n in sizes if n <= most and (n == 1 or (n - 1) * lanes < matmul.columns)]


# ---- attention -------------------------------------------------------------------------------------------------------------

MOST_ROWS, MOST_KEYS = 256, 512
"""The most bytes of a block of attention: a thread then copies some megabytes."""


def attention_blocks(kernel: AttentionKernel, default: attention.Schedule, target: Target) -> list[attention.Schedule]:
    rows, keys = product([v.extent for v in kernel.rows]), kernel.key.extent
    tile, width = default.tile, default.key_width

    def of(block: int, block_keys: int, tile: int = tile) -> attention.Schedule | None:
        fits = not isinstance(rows, int) or block < rows + tile
        fits = fits and (not isinstance(keys, int) or block_keys < keys + width)
        if not (fits and tile <= block <= MOST_ROWS and width <= block_keys <= MOST_KEYS):
            return None
        once = not default.dots and prepares_once(kernel, rows, block, target)
        return replace(default, tile=tile, rows=block, keys=block_keys, once=once)

    def up(number: int, to: int) -> int:
        return -(-number // to) * to

    half, double = up(default.rows // 2, tile), 2 * default.rows
    few, many = up(default.keys // 2, width), 2 * default.keys
    sizes = [(double, default.keys), (default.rows, many), (half, default.keys), (default.rows, few), (double, many)]
    sizes += [(half, many), (double, few), (half, few), (4 * default.rows, default.keys)]
    if default.dots:
        sizes = [(default.rows, n) for _, n in sizes]
    found = [of(*size) for size in sizes]
    if not default.dots:
        found += [of(up(default.rows, n), default.keys, n) for n in (tile - 2, tile // 2) if n >= 1]
    found.insert(2, replace(default, once=False))
    if target.exact:
        found = [each for each in found if each is not None and each.keys == default.keys]
    return [each for each in found if each is not None]


def gradient_blocks(
    kernel: AttentionGradientKernel, default: attention_gradient.Schedule, target: Target
) -> list[attention_gradient.Schedule]:
    if target.exact:
        return []
    width = default.vectors * default.lanes
    keys = [max(width, default.keys // 2 // width * width), 2 * default.keys]
    rows = [max(default.tile, default.rows // 2 // default.tile * default.tile), 2 * default.rows]
    sizes = [(rows[1], default.keys), (default.rows, keys[0]), (rows[0], default.keys), (default.rows, keys[1])]
    sizes += [(a, b) for a in rows for b in keys]
    extent = kernel.key.extent
    return [
        replace(default, rows=a, keys=b)
        for a, b in sizes
        if a <= MOST_ROWS and b <= MOST_KEYS and (not isinstance(extent, int) or b < extent + width)
    ]


# ---- loops -----------------------------------------------------------------------------------------------------------------


def cuts(kernel: LoopKernel, default: loops.Schedule, target: Target) -> list[loops.Schedule]:
    """Loop cuts for a kernel whose default schedule has no in-register transpose."""
    if kernel.column_reductions:
        return []
    lane = next((v for v in kernel.parallel if v.name == default.lane), None)
    found: list[loops.Schedule] = []
    if default.adjacent is not None:
        loop = next(v for v in kernel.parallel if v.name == default.adjacent.loop)
        for count in (default.adjacent.count - 1, default.adjacent.count + 1, default.adjacent.count // 2, 2, 3):
            if 2 <= count <= 8 and (not isinstance(loop.extent, int) or count <= loop.extent):
                even = isinstance(loop.extent, int) and loop.extent % count == 0
                found.append(replace(default, adjacent=replace(default.adjacent, count=count, even=even)))
    if lane is not None:
        # Every chunk starts at a vector's first lane, or a vector would cross the end of the chunk before.
        step = default.step or default.lanes
        for size in (default.chunk * 4, default.chunk // 4) if default.chunk else (STAGE,):
            chunk = size - size % step
            if chunk and (default.chunk or (isinstance(lane.extent, int) and lane.extent > chunk)):
                found.append(replace(default, chunk=chunk))
    if not target.exact:
        found += [replace(default, adjacent=None)] if default.adjacent is not None else []
        found += [loops.Schedule.along(kernel, other, target, transposes=False) for other in possible_lanes(kernel)]
    return found


def without_transposes(kernel: LoopKernel, target: Target) -> loops.Schedule:
    """The schedule without an in-register transpose, for a kernel whose default has one."""
    return loops.Schedule.along(kernel, choose_lane(kernel, target), target, transposes=False)
