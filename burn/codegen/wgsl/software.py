"""Shapes of kernels for adapters that run on the CPU, such as SwiftShader and llvmpipe.

Neighbouring invocations are the lanes of the CPU's vectors. Workgroup memory has no use there: it lies in the same caches as the
heap, and barriers are expensive. SwiftShader also generates a store for each of its words, so a kernel with 16 KiB takes more
than a second to compile. So each invocation loads its operands from the heap.
"""

from __future__ import annotations

from dataclasses import replace

from burn.codegen.pipeline import pipeline
from burn.codegen.wgsl import heuristics
from burn.codegen.wgsl.heuristics import FIRST, Shapes, Tile, sizes_of
from burn.kernels.body import ContractionKernel, LoopKernel

PIPELINE = pipeline(first=f"decompose{{only=attention}},{FIRST}")
"""Attention is decomposed, as its kernels stage blocks in workgroup memory."""

TILES = (
    (Tile(16, 16, 4, 4, 1, 0), 1.0),
    (Tile(8, 32, 4, 4, 1, 0), 1.0),
    (Tile(32, 16, 8, 4, 1, 0), 0.9),
    (Tile(32, 32, 8, 8, 1, 0), 0.72),
    (Tile(64, 16, 8, 8, 1, 0), 0.72),
)
"""Tiles of one to four vectors of invocations, each with the time that an element takes. Measured on SwiftShader with
MiniLM, whose contractions fill all of them."""


def tile(kernel: ContractionKernel) -> Tile | None:
    """The tile of least time, with the elements beyond the result; None if it has fewer rows than a block."""
    _, rows, columns, depth = sizes_of(kernel)
    if rows < 4 or columns < 4 or depth < 4:
        return None
    return min(TILES, key=lambda each: -(-rows // each[0].rows) * -(-columns // each[0].columns) * _cost(*each))[0]


def _cost(shape: Tile, time: float) -> float:
    return shape.rows * shape.columns * time


def is_shared(kernel: LoopKernel) -> bool:
    """Never: an invocation computes an iteration, without barriers."""
    return False


SHAPES = Shapes(tile, is_shared)

PREFERENCES = replace(heuristics.PREFERENCES, split_depth=lambda kernel, counts: 1)
"""A split depth adds parallel work. A CPU has enough without it."""
