"""Heuristics for warp-specialised gradients of convolutions' weights: tiles, boxes of pixels, shares of the depth, and their
time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from burn.codegen.triton.heuristics.matmul import size_of, usual_time
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely, power_of_two
from burn.dialect.dims import Dim, ceildiv, floordiv


@dataclass(frozen=True)
class Work:
    """A weight's gradient: rows of the window, taps of a row, channels, outputs; images, rows and columns of pixels. ring, whole:
    `Pixels.is_ring` and `is_whole`."""

    rows: Dim
    taps: Dim
    channels: Dim
    outputs: Dim
    images: Dim
    height: Dim
    width: Dim
    ring: bool
    whole: bool


@dataclass(frozen=True)
class PixelTile:
    """Groups of four warps, each with sums of `outputs` by `across` times `channels`; `held`: the cotangent is multiplied from
    registers. Boxes of pixels: `width` columns of `images` images. Then the boxes of the cotangent and of the image that fit into
    shared memory, and the registers of a group's threads, and of all threads at entry.

    `parts`: shares of the depth of one result; `even`: each of them is a program. `speed`: the operations per microsecond of a
    processor, as measured."""

    groups: int
    across: int
    held: bool
    outputs: int
    channels: int
    speed: float
    stages: int = 4
    entries: int = 6
    registers: int = 160
    entering: int = 128
    images: int = 1
    width: int = 1
    parts: int = 1
    even: bool = True

    @property
    def pixels(self) -> int:
        return self.images * self.width

    @property
    def operations(self) -> int:
        """Multiplications and additions of a step."""
        return 2 * self.groups * self.outputs * self.channels * self.across * self.pixels

    def tiles(self, rows: Dim, taps: Dim, channels: Dim, outputs: Dim, ring: bool) -> Dim:
        """The number of tiles of a gradient; see `tile_of_windows` in weight_gradient_library.py."""
        sets = floordiv(taps * ceildiv(channels, self.channels), self.across)
        units = ceildiv(rows, self.groups) * sets if ring else ceildiv(rows * sets, self.groups)
        return units * ceildiv(outputs, self.outputs)


TILES = (
    PixelTile(3, 1, False, 128, 128, 5.1e6),
    PixelTile(3, 3, True, 64, 64, 5.0e6),
    PixelTile(3, 1, False, 64, 128, 4.0e6),
    PixelTile(3, 1, False, 64, 64, 2.3e6, entries=8),
)
"""Tiles whose groups have neighbouring rows of the window."""

APART = (
    PixelTile(2, 1, False, 128, 128, 3.7e6, entries=4, registers=240, entering=168),
    PixelTile(3, 1, False, 64, 128, 2.7e6, entries=3),
    PixelTile(3, 1, False, 64, 64, 1.5e6, entries=4),
)
"""Tiles whose groups have boxes of their own."""

BOXES = (64, 32)
"""Pixels of a box."""

START = 8.0
"""Microseconds before the first multiplication, and to store the last sums."""

BYTES = 2.5e6
"""Bytes of partial sums that are stored, loaded and added per microsecond."""

WORTH = 1.5
"""The usual kernel takes at least this multiple of a matmul's time if its lhs is under windows: 1.5 to 3 was measured."""


def pixel_tile(work: Work, processors: int, hints: SizeHints = UNKNOWN) -> PixelTile | None:
    """The tile of a weight's gradient in half precision; None if the usual kernel is as fast."""
    rows, taps, channels, outputs, images, height, width = (
        size_of(likely(size, hints))
        for size in (work.rows, work.taps, work.channels, work.outputs, work.images, work.height, work.width)
    )
    if 0 in (rows, taps, channels, outputs, images, height, width):
        return None
    best: tuple[float, PixelTile] | None = None
    for tile in _tiles(work, images, width):
        if taps * -(-channels // tile.channels) % tile.across:
            continue
        tiles = size_of(tile.tiles(rows, taps, channels, outputs, work.ring))
        steps = -(-images // tile.images) * -(-width // tile.width) * height
        for shared, share in _shared(tile, tiles, steps, processors):
            stored = 8 * shared.parts * rows * taps * channels * outputs if shared.parts > 1 else 0
            time = START + share * tile.operations / tile.speed + stored / BYTES
            if best is None or time < best[0]:
                best = time, shared
    usual = usual_time(rows * taps * channels, outputs, images * height * width, processors)
    return best[1] if best is not None and best[0] < WORTH * usual else None


def _tiles(work: Work, images: int, width: int) -> Iterator[PixelTile]:
    """The tiles with boxes of pixels that suit an image."""
    for tile in TILES if work.ring else APART:
        for pixels in BOXES:
            widths = [1 << n for n in range(pixels.bit_length()) if not work.whole or width % (1 << n) == 0]
            boxes = [(w, pixels // w) for w in widths if w <= power_of_two(width)]
            wide, many = min(boxes, key=lambda box: (_filled(width, box[0]) * _filled(images, box[1]), -box[0]))
            more = BOXES[0] // pixels
            yield replace(tile, width=wide, images=many, stages=tile.stages * more, entries=tile.entries * more)


def _filled(size: int, block: int) -> int:
    """The size in whole blocks."""
    return -(-size // block) * block


def _shared(tile: PixelTile, tiles: int, steps: int, processors: int) -> Iterator[tuple[PixelTile, int]]:
    """A tile with shares of the depth, and the steps of the longest program. First come even shares, which all tiles have at the
    same time, and then the same number of steps for every program."""
    for parts in {1, *range(max(1, processors // tiles), 0, -max(1, processors // tiles // 8))}:
        share = -(-steps // parts)
        yield replace(tile, parts=-(-steps // share)), -(-tiles * parts // processors) * share
    share = max(1, -(-tiles * steps // processors))
    if steps > 1:
        yield replace(tile, parts=-(-(steps - 1) // share) + 1, even=False), share
