"""The register tile of a product: its rows, and how its sums and its loop make use of a core."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim


def tile_rows(rows: Dim, vectors: int, indirect: bool, target: Target) -> int:
    """Rows of the register tile: as many as the registers hold, or fewer where that leaves fewer rows of the last tile over.

    Few different heights are used, so that kernels can be shared; each row has an address register of its own."""
    most = most_rows(vectors, target)
    if not isinstance(rows, int):
        return most
    if rows <= most:
        return max(rows, 1)
    least = most - 1 if rows > 2 * most else most // 2
    return min(range(most, max(1, least) - 1, -1), key=lambda t: -(-rows // t) * tile_cost(t, vectors))


def most_rows(vectors: int, target: Target) -> int:
    return max(1, min((target.vector_registers - 1 - vectors) // vectors, 8))


def tile_cost(rows: int, vectors: int) -> int:
    """What a place of the depth costs a tile. Two multiply-adds, or loads, are done at once."""
    return 2 * rows * vectors + rows + vectors


TOGETHER = 4
"""Places of the depth that a turn of a tile's loop takes: addresses are computed once for them, and what is asked for ahead comes
in whole cache lines. While a core's other thread is busy, it decodes half as many instructions, and then each that is no
multiply-add delays one."""


def places_together(target: Target) -> int:
    """How many those are: one where code is to be short."""
    return 1 if target.small or target.is_slender else TOGETHER


def split_depth(tile: int, vectors: int, target: Target) -> int:
    """Into how many independent sums a small tile splits its depth, so that multiply-adds do not wait for each other. Engines of
    WebAssembly load all that a turn of a loop reads before they compute: more than two sums' would not fit into registers."""
    wanted, most = 8, 2 if target.architecture == "wasm32" else 4
    return max(1, min(most, wanted // (tile * vectors)))


FEW_ROWS = 8
"""Rows up to which numbers become floats where they are multiplied: beyond, a panel of floats is written, which tile after tile
reads from a cache."""


@dataclass(frozen=True)
class DigitRows:
    """Up to `most` rows are better multiplied as digits of bytes than as floats (gemv.py), so many `together`; `sums` of them,
    for each digit, row and vector of columns, are in registers beside the weights' words. Where only a run can tell how many rows
    there are, all below FEW_ROWS are, too: most often there is one."""

    most: int
    together: int
    sums: int

    @staticmethod
    def of(target: Target) -> DigitRows:
        return DigitRows(16, 4, 24) if target.vector_registers >= 32 else DigitRows(3, 1, 9)

    def beside(self, vectors: int, sums: int) -> int:
        """Vectors of columns, of so many sums each, that are summed at a time: as many in each group."""
        groups = -(-vectors // max(1, self.sums // sums))
        return -(-vectors // groups)


def few_rows(rows: Dim, kernel: Tiled, target: Target, digits: bool) -> int | None:
    """Rows that are summed together where numbers become floats in registers: all of a few; one where only a run can tell how
    many there are, or digits are better for them; None for many."""
    vectors = kernel.width // min(target.lanes(4), kernel.width)
    if not isinstance(rows, int):
        return 1
    if 0 < rows <= min(FEW_ROWS, tile_rows(rows, vectors, False, target)):
        return rows
    return 1 if digits and 0 < rows <= DigitRows.of(target).most else None


def more_rows(target: Target, digits: bool) -> int:
    """Rows from which on there are many, where only a run can tell how many there are."""
    return max(FEW_ROWS, DigitRows.of(target).most + 1 if digits else 0)
