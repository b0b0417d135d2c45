"""Heuristics for the register tile of a matmul: its rows, accumulators and inner loop."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim


def tile_rows(rows: Dim, vectors: int, target: Target) -> int:
    """Rows of the register tile: as many as the registers hold, or fewer if that leaves fewer rows in the last tile.

    A symbolic row count gets the most. Few heights occur, so that launches can share a kernel.
    """
    most = most_rows(vectors, target)
    if not isinstance(rows, int):
        return most
    if rows <= most:
        return max(rows, 1)
    least = most - 1 if rows > 2 * most else most // 2
    return min(range(most, max(1, least) - 1, -1), key=lambda t: -(-rows // t) * tile_cost(t, vectors))


def most_rows(vectors: int, target: Target) -> int:
    return max(1, min((target.vector_registers - 1 - vectors) // vectors, target.costs.tile_rows))


def tile_cost(rows: int, vectors: int) -> int:
    """The cost of one depth element for a tile. Two multiply-adds, or loads, issue at once."""
    return 2 * rows * vectors + rows + vectors


def unroll_factor(target: Target) -> int:
    """Unroll factor of a tile's loop over the depth; 1 for size-optimised code. Addresses are computed once per unrolled
    iteration, and prefetches cover whole cache lines. With a busy sibling thread a core decodes half as many instructions, so
    each instruction that is no multiply-add delays one."""
    return 1 if target.small or target.is_size_bound else target.costs.unroll


def split_depth(tile: int, vectors: int, target: Target) -> int:
    """The number of independent accumulators among which a small tile splits its depth, so that multiply-adds do not
    wait for each other. WebAssembly engines load all operands of an unrolled iteration before they compute: more than
    two would not fit into registers."""
    wanted, most = target.costs.chains, 2 if target.architecture == "wasm32" else 4
    return max(1, min(most, wanted // (tile * vectors)))


@dataclass(frozen=True)
class LimbRows:
    """Up to `most` rows are multiplied as int8 limbs rather than floats (gemv.py), `together` at a time. Registers hold
    `sums` accumulators, one for each limb, row and vector of columns, beside the weights. If the number of rows is
    known only at run time, all below `Costs.few_rows` use limbs: most often there is one row."""

    most: int
    together: int
    sums: int

    @staticmethod
    def of(target: Target) -> LimbRows:
        together, sums = (4, 24) if target.vector_registers >= 32 else (1, 9)
        return LimbRows(target.costs.limb_rows, together, sums)

    def beside(self, vectors: int, sums: int) -> int:
        """Vectors of columns, with `sums` accumulators each, that are computed at a time. Groups have equal sizes."""
        groups = -(-vectors // max(1, self.sums // sums))
        return -(-vectors // groups)


def few_rows(rows: Dim, kernel: Tiled, target: Target, limbs: bool) -> int | None:
    """Rows that are accumulated together while weights are converted in registers. All rows if there are few; one if
    their number is known only at run time, or if limbs are faster for more; None if there are many. For these a panel of floats
    is stored, which successive tiles read from a cache."""
    vectors = kernel.width // min(target.lanes(4), kernel.width)
    if not isinstance(rows, int):
        return 1
    if 0 < rows <= min(target.costs.few_rows, tile_rows(rows, vectors, target)):
        return rows
    return 1 if limbs and 0 < rows <= LimbRows.of(target).most else None


def more_rows(target: Target, limbs: bool) -> int:
    """The number of rows from which a contraction is compiled for many rows, if the number is known only at run time."""
    return max(target.costs.few_rows, LimbRows.of(target).most + 1 if limbs else 0)
