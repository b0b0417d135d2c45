"""Prints attention kernels: a block of rows iterates over blocks of keys, with an online softmax.

For each block of keys, the scores of some rows are computed as a register tile. They stay in the first-level cache
until their exponentials have been multiplied with the values. A larger score rescales the previous result (Milakov
and Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135). Keys are transposed first, in lanes x lanes squares, so
that neighbouring scores are contiguous. All rows of a head share the transposed keys if no key is masked and the keys
fit in a cache. One or two rows read keys without a transpose (`dot_scores`). `emit` is the entry point.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu.attention_pairs import PairsPrinter
from burn.codegen.cpu.attention_printer import AttentionPrinter
from burn.codegen.cpu.heuristics.attention import (
    ATTENTION_DOTS,
    attention_keys,
    attention_rows,
    attention_tile,
    column_vectors,
    multiplies_pairs,
    prepares_once,
)
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, ceildiv, product
from burn.dialect.types import DTYPES
from burn.kernels.body import AttentionKernel


@dataclass(frozen=True)
class Schedule:
    """Decisions made while sizes are numbers. An iteration processes `rows` rows, `tile` of them in registers at a time
    with `vectors` vectors of columns (or `key_vectors` of keys), over blocks of `keys` keys. `once`: a thread's first
    iteration for a head transposes all its keys and stages its values. `pairs`: both matmuls multiply pairs of bfloat16
    (attention_pairs.py)."""

    tile: int
    vectors: int
    key_vectors: int
    rows: int
    keys: int
    lanes: int
    dots: bool
    once: bool
    pairs: bool = False

    @staticmethod
    def of(kernel: AttentionKernel, target: Target) -> Schedule:
        lanes = target.lanes(DTYPES[kernel.dtype].size)
        rows = product([v.extent for v in kernel.rows])
        tile, vectors = attention_tile(rows, target)
        extent = kernel.key.extent
        key_vectors = 1 if isinstance(extent, int) and extent <= lanes else vectors
        keys = attention_keys(extent, key_vectors * lanes, target.costs.attention_keys)
        dots = isinstance(rows, int) and rows <= ATTENTION_DOTS
        block = attention_rows(rows, tile, target)
        once = not dots and prepares_once(kernel, rows, block, target)
        pairs = not dots and multiplies_pairs(kernel, target)
        vectors = column_vectors(kernel.column.extent, lanes, vectors)
        return Schedule(tile, vectors, key_vectors, block, keys, lanes, dots, once, pairs)

    @property
    def key_width(self) -> int:
        """Blocks of keys are multiples of this."""
        return self.key_vectors * self.lanes

    def count(self, kernel: AttentionKernel) -> Dim:
        """Iterations of a launch: blocks of rows x batches."""
        blocks = ceildiv(product([v.extent for v in kernel.rows]), self.rows)
        return product([v.extent for v in kernel.batch]) * blocks

    def work(self, kernel: AttentionKernel) -> Dim:
        """Vector operations of one iteration."""
        return kernel.key.extent * (kernel.depth.extent + kernel.column.extent) * max(1, self.rows // 8)


def emit(kernel: AttentionKernel, schedule: Schedule, target: Target, sites: list[str]) -> str:
    """The kernel's text; its name is left as `KERNEL`."""
    printer = PairsPrinter if schedule.pairs else AttentionPrinter
    return printer(kernel, schedule, target, sites).print()
