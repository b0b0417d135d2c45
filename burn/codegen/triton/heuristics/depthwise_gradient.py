"""Heuristics for gradients of depthwise convolutions' weights by tensor cores (`codegen/triton/depthwise_gradient.py`): which
they are, and their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

from burn.codegen.triton.heuristics.banded import DEPTH, RESULTS

TILES = 16
"""Tiles of a program: the depth of a matrix instruction."""

LEAST_CHANNELS = 16
"""Fewer channels would leave most of a program's warps idle."""

VECTOR = 8
"""Channels of 16 bytes, which one instruction copies to shared memory."""


@dataclass(frozen=True)
class Work:
    """channels: of the image; others: indices of other parallel loops, which are programs of their own; tiles: without walks;
    steps: of results along the walked axis; matrices: of sums, with `columns` each; stride: rows of positions for a step of
    results; needed: positions of a row; held: steps whose results stay in registers; taps: of the window."""

    channels: int
    others: int
    tiles: int
    steps: int
    matrices: int
    columns: int
    stride: int
    needed: int
    held: int
    taps: int


@dataclass(frozen=True)
class GradientBlock:
    """channels, warps: of a program; stages: steps in shared memory; walked: steps of results of a tile; shares: programs that
    divide the tiles of a channel; vector: channels of a copy."""

    channels: int
    warps: int
    stages: int
    walked: int
    shares: int
    vector: int

    @property
    def each(self) -> int:
        """Channels of a warp."""
        return self.channels // self.warps


SHAPES = ((32, 8, 4), (32, 8, 8), (16, 8, 4), (32, 16, 4))
"""Channels and warps of a program, and channels of a copy. Copies of 4 channels stay in the L1 cache, so that tiles share
positions, and four channels of a warp are then loaded without bank conflicts. Copies of 8 have fewer addresses."""

ROOM = 230
"""The most estimated registers with copies of 4 channels. Windows of 7x7 took 26 us with them and 24 with copies of 8."""

MOST_REGISTERS = 264
"""The most estimated registers of a thread. Of 255, a few that are stored and loaded do not matter."""

OWN_REGISTERS = 70
"""Registers for addresses and conditions."""

MEMORY = 180 << 10
"""The most bytes of shared memory for stages."""

STAGES = (4, 5, 6, 7, 8)
"""Numbers of steps in shared memory: with fewer than four a program waits for its copies."""

LONGEST = 24
"""The most steps after which both stages and held results repeat: the text has all of them."""

COPIED = 50e3
"""Bytes that a processor copies to shared memory per microsecond, from an H100."""

SUM = 5e-4
"""Microseconds of a step for each matrix of a channel, and for each pass through the banks beyond the first."""

START, LAUNCH = 0.7, 3.0
"""Microseconds of a program beside its steps, and of a launch."""

PARTIAL = 2.5e6
"""Bytes of partial sums that are stored, loaded and added per microsecond."""


def gradient_block(work: Work, processors: int, memory: int) -> GradientBlock | None:
    """The block of the least estimated time; None without one that fits registers and shared memory. processors: of the GPU;
    memory: bytes of shared memory that a program can have."""
    found = list(_blocks(work, min(memory, MEMORY)))
    return min(found, key=lambda block: (_time(block, work, processors), block.shares), default=None)


def registers(work: Work, each: int) -> int:
    """The registers of a thread with so many channels: sums, results that are held, rows of positions."""
    pieces = work.columns // RESULTS
    return each * (4 * work.matrices * pieces + 2 * work.held * pieces + 4 * work.stride) + OWN_REGISTERS


def _blocks(work: Work, memory: int) -> Iterator[GradientBlock]:
    for channels, warps, vector in SHAPES:
        used = registers(work, channels // warps)
        if used > (ROOM if vector < VECTOR else MOST_REGISTERS):
            continue
        size = 2 * TILES * channels * (DEPTH * work.stride + work.columns)
        periods = {n: lcm(n, work.held) for n in STAGES if n * size <= memory}
        stages = min(periods, key=lambda n: periods[n], default=0)
        if not stages or periods[stages] > LONGEST:
            continue
        for walks in range(1, work.steps + 1):
            walked = -(-work.steps // walks)
            groups = -(-work.tiles * -(-work.steps // walked) // TILES)
            yield GradientBlock(channels, warps, stages, walked, max(1, groups), vector)


def _time(block: GradientBlock, work: Work, processors: int) -> float:
    """Microseconds."""
    copied = 2 * TILES * block.channels * (work.needed * work.stride + work.columns) / COPIED
    passes = block.vector // block.each - 1
    step = copied + SUM * block.channels * (work.matrices * work.columns / RESULTS + 2 * passes)
    programs = block.shares * -(-work.channels // block.channels) * work.others
    partial = 8 * block.shares * work.channels * work.taps / PARTIAL
    return LAUNCH + -(-programs // processors) * ((block.walked + work.held - 1) * step + START) + partial
