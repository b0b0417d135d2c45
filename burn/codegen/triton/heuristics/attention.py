"""Block sizes of attention and its backward pass, and the shapes of warp-specialised kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from burn.codegen.triton.heuristics.device import LEAST
from burn.codegen.triton.heuristics.sizes import power_of_two
from burn.dialect.dims import Dim


@dataclass(frozen=True)
class Block:
    """Rows and keys of a block of attention, the warps that share it, and the blocks of keys in flight."""

    rows: int
    keys: int
    warps: int = 4
    stages: int = 3


SCORES, SUMS = 1024, 2048
"""Scores and elements of an accumulator for a warp: 32 and 64 for a thread."""


def _warps(rows: int, keys: int, depth: int, most: int) -> int:
    """The warps of a small block, up to `most`. More would repeat each other's work."""
    return max(1, min(most, max(rows * keys // SCORES, max(rows, keys) * depth // SUMS)))


def attention_block(dtype: str, is_half: bool, rows: Dim, keys: Dim, depth: int, masked: bool = False) -> Block:
    """dtype: of the accumulators; depth: of a head, the larger of the two. float64 matmuls run in registers; float32
    ones have no tensor cores, and large blocks would not fit the registers. masked: scores read a tensor, whose blocks are
    in shared memory beside those of keys and values."""
    if dtype == "float64":
        return Block(16, 16)
    if not is_half:
        return Block(32, 32)
    if isinstance(rows, int) and rows <= 64:
        high, wide = max(LEAST, power_of_two(rows)), 128 if rows <= LEAST and depth <= 64 else 64
        if isinstance(keys, int) and keys <= wide // 2:
            wide = max(LEAST, power_of_two(keys))
            return Block(high, wide, _warps(high, wide, depth, 4))
        return Block(high, wide)
    if depth > 128:
        return Block(64, 32, 8, 2)
    return Block(64, 64) if depth <= 64 else Block(128, 64 if masked else 128, 8)


@dataclass(frozen=True)
class WarpSpecialised:
    """A warp-specialised attention kernel: the elements in a block of the walked axis, the blocks in flight, and the groups
    of 64 elements of the other axis. Then the registers of a group's threads, and of all threads at entry. ahead: a
    block's scores overlap with the matmul of the previous block's values, which takes registers. least: the rows and
    keys from which it gains, because these kernels take longer to start."""

    walked: int
    stages: int
    groups: int
    registers: int
    entering: int
    ahead: bool
    least: int


WARP_SPECIALISED = {
    64: WarpSpecialised(128, 3, 3, 160, 128, False, 4096),
    128: WarpSpecialised(128, 2, 2, 240, 168, True, 2048),
}
"""Kernels by the size of a head. The registers are those of 65,536 that the producer warp leaves."""

WARP_SPECIALISED_GRADIENT = {128: WarpSpecialised(64, 3, 2, 240, 168, False, 2048)}
"""The same for the gradients of keys and values. With heads of 64, blocks of 128 keys shared by all warps are faster.
"""


def warp_specialised(
    table: Mapping[int, WarpSpecialised], rows: Dim, keys: Dim, depth: int, columns: int
) -> WarpSpecialised | None:
    """The table's entry for attention with these numbers of rows and keys, if it gains. depth, columns: see `padded`."""
    shape = table.get(max(depth, columns)) if {depth, columns} <= table.keys() else None
    enough = shape is not None and all(isinstance(n, int) and n >= shape.least for n in (rows, keys))
    return shape if enough else None


def whole_gradient_block(rows: Dim, keys: int) -> Block:
    """The same for the backward pass if a program has all keys of a head, and iterates over rows."""
    most = max(LEAST, power_of_two(keys))
    high = min(64, max(LEAST, power_of_two(rows))) if isinstance(rows, int) else 64
    return Block(high, most, 8 if most > 64 else 4, 1)


def gradient_block(is_half: bool, of_rows: bool, rows: Dim, keys: Dim, depth: int, dropout: bool = False) -> Block:
    """The same for the backward pass. of_rows: a program has a block of rows and iterates over keys; otherwise the
    converse, with two accumulators in registers. dropout: its random numbers take registers."""
    if not is_half:
        block = Block(32, 32) if depth <= 128 else Block(16, 16)
    elif depth > 128:
        block = Block(64, 32, 8, 2) if of_rows else Block(32, 64, 8, 2)
    elif dropout and depth <= 64:
        block = Block(64, 64, 4, 3 if of_rows else 2)
    elif of_rows:
        block = Block(128, 64, 8)
    else:
        block = Block(128 if depth <= 64 else 64, 64, 4, 2)
    high, wide = (
        min(most, max(LEAST, power_of_two(size))) if isinstance(size, int) else most
        for most, size in ((block.rows, rows), (block.keys, keys))
    )
    if (high, wide) != (block.rows, block.keys) and is_half:
        block = replace(block, warps=_warps(high, wide, depth, block.warps))
    return replace(block, rows=high, keys=wide)
