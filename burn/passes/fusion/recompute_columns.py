"""Column reductions of values that follow from the operands of another kernel move into that kernel.

Example: behind a matmul, the backward pass of a norm sums the matmul's result, and the result times the normalised input, over
all rows. Both would be stored by the matmul, and read by kernels of their own. The kernel that computes the gradient of the
norm's input reads the result and the input. It sums both without further reads. This runs when recomputation has decided what
each kernel reads.
"""

from __future__ import annotations

from burn.dialect.dims import estimate, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, leads_to
from burn.passes.fusion.columns import fits, is_column_reduction, move, read_whole, reductions
from burn.passes.fusion.recompute import Recomputation, Start, can, insert, move_in, readers_of


def recompute_columns(choice: Choice) -> None:
    """Moves column reductions into clusters that read the same rows, or the rows that their operands follow from."""
    if not (most := choice.preferences.recomputed_columns):
        return
    groups, gone = reductions(choice), set[Cluster]()
    added: dict[int, list[Op]] = {}
    for group in filter(is_column_reduction, groups):
        if estimate(product([d for i, d in enumerate(group.space) if i not in group.axes])) > most:
            continue
        for other in groups:
            if other in gone or not fits(choice, group, other):
                continue
            found = None
            if set(read_whole(choice, group)).isdisjoint(read_whole(choice, other)):
                found = _recomputation(choice, group, other)
                if found is None or not fits(choice, group, other, len(found.steps)):
                    continue
                move_in(choice, found, group, added)
            move(choice, group, other)
            gone.add(group)
            break
    insert(choice, added)


def _recomputation(choice: Choice, group: Cluster, other: Cluster) -> Recomputation | None:
    """That of a value which a column reduction reads, if another cluster has its sources and this moves fewer bytes."""
    for value in read_whole(choice, group):
        home, op = choice.cluster_of(value), op_of(value)
        if home is None or not isinstance(op, Pointwise):
            continue
        alone = readers_of(choice, value, home) == [group]
        for start in Start:
            found = Recomputation(choice, value, start)
            moved = found.spent([other])
            if moved < found.bytes * (1 + alone) and _apart(choice, found, other) and can(choice, found, group):
                return found
    return None


def _apart(choice: Choice, found: Recomputation, other: Cluster) -> bool:
    """True if no source of a recomputation depends on a cluster."""
    sources: list[ir.Value] = [choice.source(value) for value in found.sources]
    clusters = {c for value in sources if (c := choice.cluster_of(value)) is not None}
    return not leads_to(clusters, other)
