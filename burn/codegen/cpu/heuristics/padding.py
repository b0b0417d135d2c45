"""Heuristics for padding: the convolutions that test, for each tile of rows and each tap, if any row reads the image there.
Others have separate code for tiles that read no padding."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Atom, Dim, LoopVar, coefficient, product, substitute
from burn.kernels.body import loop_atoms

LEAST = 16
"""The vector multiply-adds of a tap, for each row, from which a test pays. A test takes a subtraction, a comparison and one or
two logical instructions for each row and axis: about six for an image. That is less than half of the instructions that it may
save."""


TEST = 3
"""Instructions of a test for a row of a tile and an axis of the image. They take as long as so many multiply-adds."""


def skips_padding(kernel: Tiled, tile: int, vectors: int, target: Target) -> bool:
    """True if taps that read only padding are left out. They contribute 0, so padding of another value is read. tile: the rows of
    a tile. vectors: those of a row."""
    inner = kernel.inner.extent
    if kernel.fill or (isinstance(inner, int) and inner * kernel.run * vectors < LEAST):
        return False
    parts = [_left_out(index, extent, kernel, tile) for index, extent in kernel.valid]
    known = [part for part in parts if part is not None]
    if len(known) == len(parts) and isinstance(inner, int):
        return sum(known) * inner * kernel.run * vectors >= TEST * len(parts) > 0
    return any(_is_far(index, loop, target.costs.tile_rows) for index, _ in kernel.valid for loop in kernel.outer)


def leaves_out(kernel: Tiled, window: LoopVar, tile: int, skips: bool) -> bool:
    """True if a matmul leaves out taps of a loop of the window for whole tiles of rows, or may if sizes are open. skips:
    `skips_padding`."""
    parts = [_left_out(index, extent, kernel, tile) for index, extent in kernel.valid if window in loop_atoms(index)]
    return skips and any(part is None or part > 0 for part in parts)


ADDRESS = 2
"""Instructions that select the address of a row or that of padding, for each tap."""

SAVED = 1 / 16
"""The part of a kernel's instructions that tests must take, so that a second loop without them pays."""

INNER = 0.5
"""The part of an image's tiles that must read no padding."""


def separates_interior(kernel: Tiled, tile: int, vectors: int, target: Target) -> bool:
    """True if tiles of rows that read no padding have code without tests. In a large image these are most tiles. With few
    channels, and with several of them in one instruction, the tests of a tap take as long as a part of its multiply-adds."""
    if target.is_size_bound or target.small or not kernel.valid or not kernel.rows:
        return False
    inner, width = kernel.inner.extent, kernel.rows[-1].extent
    if not isinstance(inner, int) or not isinstance(width, int):
        return False
    loops = (*kernel.rows, *kernel.outer)
    steps = [coefficient(index, loop) for index, _ in kernel.valid for loop in loops]
    if not all(isinstance(step, int) and step >= 0 for step in steps):
        return False
    tests = TEST * len(kernel.valid) + ADDRESS
    if tests < SAVED * inner * vectors:
        return False
    padded = [_padded_columns(index, extent, kernel) for index, extent in kernel.valid]
    return all(count is not None and width - count - tile + 1 >= INNER * width for count in padded)


def _padded_columns(index: Dim, extent: Dim, kernel: Tiled) -> int | None:
    """The columns of an image whose windows reach into the padding at its left and right: 0 for the index of another axis, None
    for open sizes."""
    column = kernel.rows[-1]
    stride, count = coefficient(index, column), column.extent
    if stride == 0:
        return 0
    first = substitute(index, dict.fromkeys((*kernel.rows, *kernel.outer), 0))
    last: dict[Atom, Dim] = {loop: loop.extent - 1 for loop in kernel.outer}
    reach = substitute(index, {**dict.fromkeys(kernel.rows, 0), **last})
    numbers = (stride, count, first, reach, extent)
    if not all(isinstance(n, int) for n in numbers):
        return None
    stride, count, first, reach, extent = (n for n in numbers if isinstance(n, int))
    left, inside = max(0, -(first // stride)), max(0, -(-(extent - reach) // stride))
    return min(count, left) + max(0, count - inside)


def _left_out(index: Dim, extent: Dim, kernel: Tiled, tile: int) -> float | None:
    """The part of the taps of tiles whose rows are all outside of the image along an axis. None if sizes are open, or the index
    is not that of one loop over rows and one of the window."""
    found = [v for v in (*kernel.rows, *kernel.outer) if coefficient(index, v) != 0]
    if len(found) != 2 or found[0] not in kernel.rows or found[1] not in kernel.outer:
        return None
    row, tap = found
    stride, step = coefficient(index, row), coefficient(index, tap)
    start, below = (
        substitute(index, {row: 0, tap: 0}),
        product([v.extent for v in kernel.rows[kernel.rows.index(row) + 1 :]]),
    )
    numbers = (stride, step, start, below, extent, row.extent, tap.extent)
    if not all(isinstance(n, int) for n in numbers):
        return None
    stride, step, start, below, extent, rows, taps = (n for n in numbers if isinstance(n, int))
    if stride < 1 or 0 in (rows, taps, below):
        return None
    outside = 0
    for shift in range(start, start + step * taps, step) if step else ():
        before = min(rows, max(0, -(shift // stride)))  # rows with a negative index
        behind = min(rows, max(0, rows - -(-(extent - shift) // stride)))
        outside += before * below // tile + behind * below // tile
    return min(1.0, outside * tile / (taps * rows * below))


def _is_far(index: Dim, loop: LoopVar, rows: int) -> bool:
    """True if an index moves along a loop of the window at least as far as a tile of rows reaches. The outputs of a tile are
    neighbours, so padding of this length holds whole tiles. If sizes are numbers, the pass `crop_taps` has removed the taps that
    no row needs."""
    step = coefficient(index, loop)
    if step == 0:
        return False
    return not (isinstance(step, int) and isinstance(loop.extent, int)) or abs(step) * (loop.extent - 1) >= rows
