"""Heuristics for matmuls of few rows with a transposed rhs, as dot products (matmul/dot_products.py)."""

from __future__ import annotations

from burn.codegen.cpu.target import Target

MOST_ROWS = 48
"""The most rows of such a matmul. A transposed rhs is moved once more, which many multiplications of each element hide."""

COLUMNS = 4
"""Columns at a time beside several rows: a vector of the lhs is loaded for so many multiply-adds."""


def reads_rows(target: Target) -> int:
    """The most rows of a matmul that reads a transposed rhs in place. Sums along lanes are regrouped, and take code."""
    if target.exact or target.small or target.is_size_bound or target.lanes(4) == 1:
        return 0
    return MOST_ROWS


def columns_at_once(rows: int, lanes: int) -> int:
    """Columns whose dot products are computed at a time; one row has registers for twice as many. Their sums become one
    vector."""
    return min(lanes, 2 * COLUMNS if rows == 1 else COLUMNS)


def rows_at_once(rows: int, width: int, target: Target) -> int:
    """Rows beside so many columns: their accumulators, a vector of each row and one of the rhs are registers. Tiles have about
    equal heights."""
    most = max(1, min((target.vector_registers - 1) // (width + 1), target.costs.tile_rows))
    return -(-rows // -(-rows // most))
