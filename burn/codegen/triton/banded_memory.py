"""Shared memory of depthwise convolutions by tensor cores (`banded_code.py`).

Blocks are loaded and stored along channels, and multiplied channel by channel, so each passes through shared memory. A layout
conversion of Triton has two barriers: one between its store and its load, one before its memory is used again. Here steps
alternate between two buffers. A step's positions and the results of the step before it share one barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.triton.code import Code
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.banded import DEPTH, MATRICES, TILES
from burn.dialect.types import HALF_DTYPES

CHANNEL_FIRST = "(2, 0, 1)"


class Memory:
    """Buffers of [tile, position or result, channel], and their layouts.

    images: the type of positions and weights; sums: the type in which results are read; channels: of a program; results: of a
    step."""

    def __init__(self, code: Code, images: str, sums: str, channels: int, results: int) -> None:
        self.code, self.images, self.sums = code, images, sums
        self.channels, self.results = channels, results
        self._layouts: dict[tuple[bool, int], str] = {}
        self._inputs = self._outputs = 0

    def matrices(self, bands: Sequence[str]) -> list[str]:
        """Loaded bands of the weight as operands of matmuls."""
        buffers = [self._allocated("bands", self.images, self.results) for _ in bands[:MATRICES]]
        found: list[str] = []
        for start in range(0, len(bands), MATRICES):
            used = list(zip(buffers, bands[start : start + MATRICES], strict=False))
            for buffer, band in used:
                self.code.line(f"{buffer}.store({band})")
            found += [self._loaded(f"{buffer}.permute({CHANNEL_FIRST})", "RIGHT") for buffer, _ in used]
        return found

    def steps(self) -> None:
        """Allocates the buffers of steps, which may take the memory of the bands."""
        self._in = [self._allocated("positions", self.images, DEPTH) for _ in range(2)]
        self._out = [self._allocated("results", self.sums, self.results) for _ in range(2)]

    def left(self, step: str) -> str:
        """A loaded step of positions as an operand of matmuls."""
        buffer = self._in[self._inputs % 2]
        self._inputs += 1
        self.code.line(f"{buffer}.store({step})")
        return self._loaded(f"{buffer}.permute({CHANNEL_FIRST})", "LEFT")

    def keep(self, total: str) -> str:
        """Stores the sums of a step; returns the buffer. The second buffer after it is the same one."""
        buffer = self._out[self._outputs % 2]
        self._outputs += 1
        kept = f"{total}.to({triton_type(self.sums)})" if self.sums in HALF_DTYPES else total
        self.code.line(f"{buffer}.permute({CHANNEL_FIRST}).store({kept})")
        return buffer

    def kept(self, buffer: str) -> str:
        """The sums in a buffer, with adjacent channels in a thread."""
        return self._loaded(buffer, "STORED")

    def _loaded(self, buffer: str, layout: str) -> str:
        return self.code.let(f"{buffer}.load({layout})", "m")

    def _allocated(self, name: str, kind: str, length: int) -> str:
        shape = f"[{TILES}, {length}, {self.channels}]"
        return self.code.let(
            f"tl.allocate_shared_memory({triton_type(kind)}, {shape}, {self._layout(kind, length)})", name
        )

    def _layout(self, kind: str, length: int) -> str:
        key = kind in HALF_DTYPES, length
        if key not in self._layouts:
            name = self._layouts[key] = f"SHARED{len(self._layouts)}"
            bases = (_words if key[0] else _floats)(self.channels, length)
            self.code.line(f"{name}: tl.constexpr = tl.SharedLinearLayout({bases})")
        return self._layouts[key]


def _words(channels: int, length: int) -> list[list[int]]:
    """The layout of 16-bit elements: what each bit of an address adds to [tile, position, channel].

    Eight positions are a row of 16 bytes. `ldmatrix` and `stmatrix` take eight rows at a time. These belong to eight tiles or,
    transposed, to the channels that four threads have. In both cases the rows lie in different banks."""
    bases = [[0, 1, 0], [0, 2, 0], [0, 4, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0], [8, 0, 0]]
    bases += [[0, 8, 0]] if length > 8 else []
    return bases + [[2, 0, 1], [0, 0, 2], [0, 0, 4], [4, 0, 8], [1, 0, 16]][: channels.bit_length() - 1]


def _floats(channels: int, length: int) -> list[list[int]]:
    """The same for float32: four channels are 16 bytes. Eight threads that load them, and those that store pairs of results, have
    different banks."""
    bases = [[0, 0, 1], [0, 0, 2], [0, 2, 0], [0, 4, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0], [8, 0, 0], [0, 5, 0]]
    bases += [[0, 8, 0]] if length > 8 else []
    return bases + [[0, 0, 4], [0, 2, 8], [1, 0, 16]][: channels.bit_length() - 3]
