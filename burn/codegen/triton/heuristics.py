"""Every choice of the Triton code generator that is a matter of speed and not of meaning, in one place."""

from __future__ import annotations

from burn.dialect.dims import Dim
from burn.kernels.wants import Wants

WANTS = Wants(keep_rows=False, columns_apart=True, reduce_block=16384)
"""A row's values stay in registers, and strided columns are read as they are."""

ELEMENTS = 1024
"""Elements of a block that a program takes, without loops inside."""

TILE = 2048
"""Elements of a block of rows and columns."""

PERSISTENT = 4096
"""A row of up to so many elements is held as a whole, so that nothing is read twice."""

WARPS = 4

STAGES = 3
"""Blocks of a product that are on their way from memory at once."""


def power_of_two(number: int) -> int:
    """The next one upwards."""
    return 1 << max(0, number - 1).bit_length()


def persistent(length: Dim) -> bool:
    return isinstance(length, int) and 1 <= length <= PERSISTENT


def rows_and_columns(rows: Dim, length: Dim) -> tuple[int, int]:
    """(rows of a block, columns of a block)."""
    columns = power_of_two(length) if isinstance(length, int) and persistent(length) else TILE // 2
    most = max(1, TILE // max(columns, 1))
    return (min(most, power_of_two(rows)) if isinstance(rows, int) else most), columns


def elements(count: Dim) -> int:
    return min(ELEMENTS, power_of_two(count)) if isinstance(count, int) else ELEMENTS


IN_TURN = 128
"""Rows of a block whose places are taken one after the other."""

LEAST = 16
"""Rows, columns and depth of a block product at least."""


def product_tile(rows: Dim, columns: Dim, depth: Dim) -> tuple[int, int, int]:
    """(rows, columns, depth) of a block product."""

    def cut(size: Dim, most: int) -> int:
        return max(LEAST, min(most, power_of_two(size))) if isinstance(size, int) else most

    return cut(rows, 64), cut(columns, 64), cut(depth, 32)


def attention_block(dtype: str) -> tuple[int, int]:
    """(rows, keys) of a block. Products of float64 are formed in registers, all of them at once."""
    return (16, 16) if dtype == "float64" else (64, 64)
