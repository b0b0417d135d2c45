"""Heuristics for rows times a weight in fragments (`codegen/triton/fragments.py`): which kernels are such, and their blocks."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.triton.heuristics.few_bits import in_fragments
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely, power_of_two
from burn.dialect.dims import product
from burn.dialect.packed import FRAGMENT_COLUMNS
from burn.kernels.body import ContractionKernel

ROWS = 8
"""Rows of a fragment."""

MOST_ROWS = 32
"""Rows up to which the kernel is used: it unpacks the weight for every eight of them. Not tried beyond."""

NORMED_ROWS = 16
"""Rows up to which each program repeats a norm before the matmul, or has two weights. Sums of two take twice the registers."""

LOADED = 8
"""Chunks of a warp in a step, whose words are in registers. With four, memory waits; with sixteen, registers are spilled."""

WARPS = 4
"""Warps of a program at most. A program of more has fewer neighbours on its processor, which compute while it waits."""

AT_ONCE = 2
"""Programs of a processor up to which all of a kernel run at once."""

STAGED = 8
"""Chunks of a warp in shared memory, if a program has no more than `STAGED_WARPS` warps. A thread multiplies them one by one."""

STAGED_DTYPES = frozenset({"float16"})
"""The types of rows whose weights are copied to shared memory. On an H100 such kernels were right and at least 1.4 times as fast
as with weights in registers, from 1 to 32 rows. Kernels of bfloat16 have run in Triton's interpreter alone."""

STAGED_WARPS = 16
"""Warps of a program with weights in shared memory, at most."""

OTHER_MEMORY = 8 << 10
"""Bytes of shared memory for the sums of warps and norms, at most."""


@dataclass(frozen=True)
class Block:
    """Chunks of a step, warps, and groups of eight rows. at_once: all programs run at once."""

    step: int
    warps: int
    groups: int
    at_once: bool


def is_few_rows(kernel: ContractionKernel, hints: SizeHints = UNKNOWN) -> bool:
    """True for a kernel that `codegen/triton/fragments.py` prints fastest."""
    if not in_fragments(kernel) or product([v.extent for v in kernel.batch]) != 1:
        return False
    rows = likely(product([v.extent for v in kernel.rows]), hints)
    return isinstance(rows, int) and rows <= MOST_ROWS


def block_of(kernel: ContractionKernel, chunks: int, processors: int, hints: SizeHints = UNKNOWN) -> Block:
    """Warps divide the depth. With two weights and more than eight rows, sums leave registers for half of the words. Otherwise
    ptxas spills 440 bytes of each thread, and 3,824 with zero points."""
    rows = likely(product([v.extent for v in kernel.rows]), hints)
    groups = min(MOST_ROWS // ROWS, power_of_two(-(-rows // ROWS))) if isinstance(rows, int) else 1
    loaded = max(1, LOADED // groups // (len(kernel.weights) if groups > 1 else 1))
    warps = min(WARPS, power_of_two(-(-chunks // loaded)))
    columns = kernel.column.extent
    tiles = -(-columns // FRAGMENT_COLUMNS) * len(kernel.weights) if isinstance(columns, int) else 0
    return Block(warps * loaded, warps, groups, tiles <= AT_ONCE * processors)


def staged_block_of(
    kernel: ContractionKernel, chunks: int, weights: int, row: int, most: int, hints: SizeHints = UNKNOWN
) -> Block | None:
    """The block of a program that copies its weights to shared memory; None if it has no room. Warps divide the depth. weights,
    row: bytes of a program's weights, and of a row; most: bytes of a program's memory."""
    rows = likely(product([v.extent for v in kernel.rows]), hints)
    groups = min(MOST_ROWS // ROWS, power_of_two(-(-rows // ROWS))) if isinstance(rows, int) else 1
    lines = 1 if rows == 1 else ROWS * groups
    warps = max(2, min(STAGED_WARPS, power_of_two(-(-chunks // STAGED))))
    sums = warps * len(kernel.weights) * lines * FRAGMENT_COLUMNS * 4
    fits = weights + row * lines + sums + OTHER_MEMORY <= most
    return Block(warps, warps, groups, True) if fits else None
