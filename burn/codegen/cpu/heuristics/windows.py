"""Heuristics for small windows: unrolling, and the number of windows computed together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from burn.codegen.cpu.heuristics.cache_blocking import FIRST_LEVEL
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, estimate, product
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel, LoopKernel

WINDOW = 64
"""The most elements of a window's loops that are unrolled."""

BROADCAST = 16
"""The most elements that are unrolled if channels are among them and each element is broadcast."""

LONGEST = 16
"""The most iterations of an unrolled loop."""


def is_window(extents: Sequence[Dim]) -> bool:
    """True if loops of these extents iterate over a small window."""
    numbers = [n for n in extents if isinstance(n, int)]
    return len(numbers) == len(extents) and max(numbers) <= LONGEST and prod(numbers) <= WINDOW


def unrolled_loops(extents: Sequence[Dim], slides: Sequence[bool], channels: Sequence[bool], broadcast: bool) -> int:
    """The number of a window's inner loops to unroll, given the extent of each, if neighbouring windows overlap along it, and if
    it is over channels. One loop of the former kind is unrolled and all of the latter, if that is not too much code. 0 if the
    last one is long. broadcast: an element is the same for all lanes. Then channels have no shuffles of a span in common, and a
    loop over many of them takes less code."""
    found, work, sliding = 0, 1, False
    for extent, overlaps, within in reversed(list(zip(extents, slides, channels, strict=True))):
        if not isinstance(extent, int) or extent > LONGEST or work * extent > WINDOW:
            break
        if found and not within and (sliding or not overlaps):
            break
        if found and within and broadcast and work * extent > BROADCAST:
            break
        found, work, sliding = found + 1, work * extent, sliding or overlaps
    return found


def fills_vector(columns: Dim, lanes: int, target: Target) -> bool:
    """True if the columns of a convolution are one vector. A matmul's tile then loads an element for each multiply-add. Windows
    form their sums in another order."""
    return isinstance(columns, int) and 1 < columns <= lanes and not (target.exact or target.compact or target.small)


SHARED = 0.75
"""The most elements of windows, for each multiply-add of a vector, with which they are faster than tiles of a matmul."""

SHORT, SHARED_SHORT = 32, 0.9
"""The same for up to so many channels: a tile then spends as much time on addresses of its rows for each tap as on loads."""


BUSY = 0.75
"""The fewest accumulators of windows, for each of those that keep the multiply-add units busy, with which they are faster than
tiles. Five of eight take 1.1 to 1.2 times as long as tiles."""


def pays_to_share(elements: float, accumulators: int, channels: Dim, target: Target) -> bool:
    """True if a convolution is faster as windows than as tiles of a matmul. elements: those that windows load for each of their
    multiply-adds. accumulators: of windows computed together."""
    short = isinstance(channels, int) and channels <= SHORT
    return elements <= (SHARED_SHORT if short else SHARED) and accumulators >= BUSY * target.costs.chains


def holds_weights(kernel: ContractionKernel, target: Target) -> bool:
    """True if the weights of all groups stay in the second-level cache. Then windows are computed for all groups, whose elements
    of a pixel are contiguous in memory, before the next windows. Otherwise a group's windows of a row follow each other."""
    weights = product([v.extent for v in (*kernel.batch, *kernel.depth, kernel.column)]) * DTYPES[kernel.dtype].size
    return isinstance(weights, int) and weights <= target.costs.held


BLOCK = 8
"""Iterations of a long loop that are unrolled together, if windows overlap along it: the gradient of a convolution's weight."""


def split_accumulators(count: int, chains: int) -> int:
    """The number of partial sums of each window over a long loop, for `count` windows and so many accumulators in all."""
    return min(BLOCK, -(-chains // count))


PICTURES = 7
"""A divisor of the height and width of most networks' images, from 224 down to 7."""


OPERANDS = 4
"""Vector registers for the operands of windows: weights and elements."""


def windows_together(extent: Dim, window: int, waits: bool, vectors: int, target: Target) -> int:
    """The number of neighbouring windows computed together: as many as leave registers for their operands, and among
    these numbers the fastest one. waits: few of them wait for their own sums, as
    elements are broadcast, and windows past the end are computed. vectors: those of a window's lanes."""
    most = min(8 if target.vector_registers >= 16 else 4, (target.vector_registers - OPERANDS) // vectors)
    least = most // 2
    if target.small or window == 1:
        return 1
    if not isinstance(extent, int):
        return min(most, PICTURES)
    return _fewest(extent, least, most, target.costs.chains if waits else 1)


def _fewest(extent: int, least: int, most: int, chains: int = 1) -> int:
    """The number of windows from `least` to `most` with which `extent` of them take the shortest time. Of several, it is the one
    whose multiple from `extent` on is the nearest, and the greatest. Fewer than `chains` windows take as long as so many: their
    multiply-adds wait for their own sums."""
    if extent <= most:
        return extent

    def costs(number: int) -> tuple[int, int, int]:
        groups = -(-extent // number)
        return groups * max(number, chains), groups * number, -number

    return min(range(least, most + 1), key=costs)


PAIR_REGISTERS = 32
"""The vector registers from which two rows of windows are computed together. With 16, half as many neighbours fit, which load as
many elements as single rows of all neighbours."""


def pairs_rows(taps: int, shift: int, target: Target) -> bool:
    """True if two rows of windows, `shift` of `taps` rows apart, are computed together: they have half of their rows or more in
    common."""
    return target.vector_registers >= PAIR_REGISTERS and not target.small and 2 * shift <= taps


def windows_in_pair(extent: Dim, taps: int, target: Target) -> int:
    """The number of neighbouring windows of each of two rows: registers hold their results, a row of weights of each, and an
    element."""
    most = max(2, min(8, (target.vector_registers - 1) // 2 - taps))
    return _fewest(extent, max(2, most // 2), most) if isinstance(extent, int) else min(most, PICTURES)


def fetches_windows(kernel: LoopKernel, target: Target) -> bool:
    """True if results, and elements of the next windows, are prefetched: a thread does not keep the images in the second-level
    cache. For images that it keeps, prefetches are instructions without a gain."""
    if target.small or target.is_size_bound:
        return False
    widest = max(DTYPES[buffer.dtype].size for buffer in kernel.buffers)
    return estimate(product([v.extent for v in kernel.parallel])) * widest > target.costs.held


LINE, WAYS = 64, 8
"""Bytes of a cache line, and ways of the first-level cache. So have x86 CPUs whose vectors are half a line."""

WAY = FIRST_LEVEL // WAYS
"""Bytes of a way."""

OVERFLOW = 1.25
"""The lines of windows, for each that fits in their sets of the first-level cache, from which two vectors are computed together.
With 1.03, a row of 9 taps over 256 channels, that took 1.26 times as long."""


def reads_lines(stride: int, elements: int, target: Target) -> bool:
    """True if lanes of windows are two vectors, which together are a cache line. stride: the bytes from an element of windows to
    the next one. elements: those of windows computed together, with weights and results.

    If the stride is a large power of two, as with 256 or 512 channels, elements share few sets of the first-level cache. Their
    lines are evicted before the second vector is read. Other multiples of 128 channels (384, 640, 768) gain nothing on Zen 3."""
    if target.small or 2 * target.vector_bytes != LINE or stride <= 0 or stride & (stride - 1):
        return False
    sets = WAY // max(LINE, min(stride, WAY))
    return elements > OVERFLOW * WAYS * sets


LEAST_VECTORS = 4
"""The fewest vectors of an element that are read one after the other: two to four cache lines."""


def cached_lanes(extent: int, elements: int, bytes_: int, lanes: int) -> int | None:
    """The lanes for which windows of so many elements are in the first-level cache while all windows of a row are computed; None
    for all lanes, `extent`. They are about as many in each part."""
    most = max(LEAST_VECTORS * lanes, FIRST_LEVEL // max(1, elements * bytes_))
    if extent <= most:
        return None
    alike = -(-extent // -(-extent // most))
    return -(-alike // lanes) * lanes
