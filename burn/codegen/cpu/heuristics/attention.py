"""Heuristics for attention: register tiles, blocks of rows and keys."""

from __future__ import annotations

from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES
from burn.kernels.body import AttentionKernel

ATTENTION_KEYS = 128
"""Keys of a block: transposed, with their values, they are 64 KiB at a depth of 64."""

ATTENTION_ROWS = 64
"""Rows that share a block of keys: enough to make the transpose cost a tenth of the multiplications."""

ATTENTION_DOTS = 2
"""Up to this many rows, keys are not transposed: each score is a dot product along the depth."""

ATTENTION_HELD = 1024 * 1024
"""Bytes of a head's transposed keys that a thread keeps between blocks of rows."""


def prepares_once(kernel: AttentionKernel, rows: Dim, block: int) -> bool:
    """True if keys are transposed once for all rows of a head rather than for each block: there are several blocks, all
    see all keys, and the keys fit."""
    if kernel.first != 0 or kernel.stop != kernel.key.extent or (isinstance(rows, int) and rows <= block):
        return False
    size = kernel.key.extent * kernel.depth.extent * DTYPES[kernel.dtype].size
    return isinstance(size, int) and size <= ATTENTION_HELD


def attention_tile(rows: Dim, target: Target) -> tuple[int, int]:
    """(rows, vectors) of a register tile. Two vectors with eight rows keep the multiply-add units busy."""
    most, vectors = gradient_tile(target)
    return (max(1, min(rows, most)) if isinstance(rows, int) else most), vectors


def weighed_rows(tile: int) -> int:
    """Rows of a tile whose softmax weights are computed together: an exponential is a long dependence chain that starts
    only after the row's maximum is known."""
    return next(n for n in (3, 2, 1) if tile % n == 0)


def gradient_tile(target: Target) -> tuple[int, int]:
    """The register tile of the backward pass, where keys are also rows."""
    vectors = 2
    return min(8, (target.vector_registers - 1 - vectors) // vectors), vectors


def gradient_rows(tile: int, bounded: bool) -> int:
    """Rows whose probabilities are in memory at a time. Few if masks depend on the row, because a block processes the
    unmasked keys of all its rows. Otherwise enough that key gradients are seldom loaded and stored."""
    return (4 if bounded else 8) * tile


def attention_rows(rows: Dim, tile: int) -> int:
    """Rows of an iteration: about ATTENTION_ROWS, a multiple of the tile, and such that the last iteration is not
    short."""
    if not isinstance(rows, int):
        return max(1, ATTENTION_ROWS // tile) * tile
    blocks = max(1, -(-rows // ATTENTION_ROWS))
    return max(1, -(-rows // (blocks * tile))) * tile


def attention_keys(keys: Dim, width: int) -> int:
    """Keys of a block: a multiple of the tile's width."""
    most = -(-ATTENTION_KEYS // width) * width
    return most if not isinstance(keys, int) else max(width, min(most, -(-keys // width) * width))
