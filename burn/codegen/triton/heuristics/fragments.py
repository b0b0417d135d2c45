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

LOADED = 8
"""Chunks whose words a thread loads before it uses the first. More need registers, and fewer leave the memory idle."""

WARPS = 8
"""Warps of a processor that keep its memory busy, and those of a program at most."""


@dataclass(frozen=True)
class Block:
    """Chunks of a step, warps, and groups of eight rows."""

    step: int
    warps: int
    groups: int


def is_few_rows(kernel: ContractionKernel, hints: SizeHints = UNKNOWN) -> bool:
    """True for a kernel that `codegen/triton/fragments.py` prints fastest."""
    if not in_fragments(kernel) or product([v.extent for v in kernel.batch]) != 1:
        return False
    rows = likely(product([v.extent for v in kernel.rows]), hints)
    return isinstance(rows, int) and rows <= MOST_ROWS


def block_of(kernel: ContractionKernel, chunks: int, processors: int, hints: SizeHints = UNKNOWN) -> Block:
    """Warps divide the depth of a column only as far as the columns leave processors idle: their sums have to be added."""
    rows = likely(product([v.extent for v in kernel.rows]), hints)
    groups = min(MOST_ROWS // ROWS, power_of_two(-(-rows // ROWS))) if isinstance(rows, int) else 1
    columns = kernel.column.extent
    tiles = -(-columns // FRAGMENT_COLUMNS) if isinstance(columns, int) else processors
    wanted = power_of_two(-(-WARPS * processors // max(1, tiles)))
    warps = max(1, min(WARPS, wanted, power_of_two(-(-chunks // LOADED))))
    step = min(warps * max(1, LOADED // groups), max(warps, power_of_two(chunks)))
    return Block(step, warps, groups)
