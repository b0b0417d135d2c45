"""Small values that a group computes for itself, and that other groups read from memory, get a group of their own.

A kernel stores results of its own space; a reduction also one number per row. Fusion computes a bias's cast again for every
element of a larger result if no other group reads it. `recompute.py` may move a reader of the cast to other groups, which then
load it.
"""

from __future__ import annotations

from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.pointwise import Pointwise
from burn.dialect.shape import Pad
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, size_of


def separate(choice: Choice) -> None:
    """Moves such ops into loops of their own, the last ones first: what they read may become such a value."""
    made: set[Cluster] = set()
    for op in reversed(choice.ops[:-1]):
        cluster = choice.cluster.get(op.operation)
        if cluster is None or not isinstance(op, Pointwise | Pad):
            continue
        result = op.operation.results[0]
        if stores(cluster, result) or not (readers := _readers(choice, result) - {cluster}):
            continue
        cluster.members.remove(op)
        cluster.size -= size_of(op)
        own = choice.start(op)
        readers = _readers(choice, result)
        for reader in readers:
            if reader is not None:
                choice.order.add(reader, {own})
        if len(readers) == 1 and (reader := readers.pop()) in made and reader is not None and reader.space == own.space:
            choice.merge(own, reader)  # a chain of small ops is one loop
        else:
            made.add(own)


def stores(cluster: Cluster, value: ir.Value) -> bool:
    """True if the kernel of a group can store an elementwise result. Each part of kind "foreach" has a space of its own."""
    if cluster.kind == "foreach":
        return True
    spaces = [range(len(cluster.space))]
    if cluster.kind == "reduce":
        spaces += [[i for i in spaces[0] if i not in axes] for axes in (cluster.axes, cluster.across) if axes]
    return any(type_of(value).elements == product([cluster.space[i] for i in space]) for space in spaces)


def _readers(choice: Choice, value: ir.Value) -> set[Cluster | None]:
    """The groups that read a value directly or through views; None stands for readers without a group."""
    found: set[Cluster | None] = set()
    todo = [value]
    while todo:
        for use in todo.pop().uses:
            op = use.owner.opview
            cluster = choice.cluster.get(op.operation)
            if cluster is None and op.operation in choice.position and op.has(Trait.VIEW):
                todo.append(op.operation.results[0])
            else:
                found.add(cluster)
    return found
