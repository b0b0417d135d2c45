"""Heuristics for attention: register tiles, blocks of rows and keys."""

from __future__ import annotations

from burn.codegen.cpu.matmul.bf16_pairs import PAIR
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES
from burn.kernels.body import AttentionKernel, Convert

ATTENTION_DOTS = 2
"""Up to this many rows, keys are not transposed: each score is a dot product along the depth."""


def prepares_once(kernel: AttentionKernel, rows: Dim, block: int, target: Target) -> bool:
    """True if keys are transposed once for all rows of a head rather than for each block: there are several blocks, all
    see all keys, and the keys fit."""
    if kernel.first != 0 or kernel.stop != kernel.key.extent or (isinstance(rows, int) and rows <= block):
        return False
    size = kernel.key.extent * kernel.depth.extent * DTYPES[kernel.dtype].size
    return isinstance(size, int) and size <= target.costs.held


def multiplies_pairs(kernel: AttentionKernel, target: Target) -> bool:
    """True if an instruction multiplies queries by keys, and weights by values, in pairs: all three are bfloat16."""
    operands = (kernel.query, kernel.keys, kernel.values)
    are_bfloat16 = all(isinstance(x, Convert) and x.arg.dtype == "bfloat16" for x in operands)
    return are_bfloat16 and target.multiplies_pairs and target.depth_run("bfloat16", "bfloat16") == PAIR


def attention_tile(rows: Dim, target: Target) -> tuple[int, int]:
    """(rows, vectors) of a register tile. Two vectors with eight rows keep the multiply-add units busy."""
    most, vectors = gradient_tile(target)
    return (max(1, min(rows, most)) if isinstance(rows, int) else most), vectors


def column_vectors(columns: Dim, lanes: int, most: int) -> int:
    """The vectors of a register tile of values, of at most `most`: those of a narrow head have fewer."""
    return most if not isinstance(columns, int) else max(1, min(most, -(-columns // lanes)))


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


def attention_rows(rows: Dim, tile: int, target: Target) -> int:
    """Rows of an iteration: about as many as make the transpose of a block of keys cheap. They are a multiple of
    the tile, and the last iteration is not short."""
    if not isinstance(rows, int):
        return max(1, target.costs.attention_rows // tile) * tile
    blocks = max(1, -(-rows // target.costs.attention_rows))
    return max(1, -(-rows // (blocks * tile))) * tile


GRADIENT_KEYS = 128
"""The most keys of a block in the backward pass, which holds probabilities of several tiles of rows in a first-level cache."""


def attention_keys(keys: Dim, width: int, most: int) -> int:
    """Keys of a block: a multiple of the tile's width, `most` of them rounded up if there are as many."""
    most = -(-most // width) * width
    return most if not isinstance(keys, int) else max(width, min(most, -(-keys // width) * width))
