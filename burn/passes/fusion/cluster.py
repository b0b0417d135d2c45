"""Groups under construction, and their topological order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.builders.rows import reduced_axes

OF_BITS = 0.125
"""The share of an op on 32-bit words: a random number is a long chain of them, which needs few registers and should not be stored
half done."""

TILED = ("contract", "attention", "attention_gradient")
"""Kinds of group that can store their results in the order of trailing views."""


def size_of(op: Op) -> float:
    """An op's share of a group's size, which is bounded."""
    bits = [v for v in op.operation.results if isinstance(v.type, ir.RankedTensorType)]
    return OF_BITS if bits and all(type_of(v).dtype == "uint32" for v in bits) else 1.0


def axes_of(op: Op) -> frozenset[int]:
    """The axes that a reduction reduces."""
    rank = len(type_of(op.x).shape)
    return frozenset(a % rank for a in reduced_axes(op)) if rank else frozenset()


@dataclass(eq=False)
class Cluster:
    """A group under construction. `space` is the shape that its kernel iterates over."""

    kind: str
    space: tuple[Dim, ...]
    members: list[Op] = field(default_factory=list)
    axes: frozenset[int] = frozenset()  # of a reduce group
    across: frozenset[int] = frozenset()  # the other axes, if some of its reductions are along these
    last: int = 0  # its latest member's index in program order
    needs: set[Cluster] = field(default_factory=set)  # clusters whose results or sizes it reads
    users: set[Cluster] = field(default_factory=set)  # clusters that read its results or sizes
    rank: int = 0  # greater than the ranks of all its dependences
    closed: bool = False  # nothing more may join: it ends with a view, or has a layout of its own
    size: float = 0.0  # the number of its members, see `size_of`
    concats: list[Op] = field(default_factory=list)  # those of its members
    is_update: bool = False  # computes the next values of state, and nothing else


class Order:
    """Keeps the clusters' ranks a topological order while dependences are added.

    Source: Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006.
    """

    def __init__(self) -> None:
        self._ranks = 0

    def add(self, cluster: Cluster, needs: Iterable[Cluster]) -> None:
        """Adds a cluster's dependences. A new cluster comes last."""
        if cluster.rank == 0:
            self._ranks += 1
            cluster.rank = self._ranks
        for source in set(needs) - cluster.needs - {cluster}:
            cluster.needs.add(source)
            source.users.add(cluster)
            if source.rank < cluster.rank:
                continue
            low, high = cluster.rank, source.rank
            before = _closure(source, lambda c, low=low: [n for n in c.needs if n.rank >= low])
            after = _closure(cluster, lambda c, high=high: [u for u in c.users if u.rank <= high])
            moved = [*sorted(before, key=lambda c: c.rank), *sorted(after, key=lambda c: c.rank)]
            for c, rank in zip(moved, sorted(c.rank for c in moved), strict=True):
                c.rank = rank

    def replace(self, old: Cluster, new: Cluster) -> None:
        """Replaces a cluster by another one, with all its dependences and dependents."""
        for source in old.needs:
            source.users.discard(old)
        for user in (*old.users, new):
            user.needs.discard(old)
        self.add(new, old.needs)
        for user in old.users - {new}:
            self.add(user, {new})


def leads_to(starts: Iterable[Cluster], goal: Cluster) -> bool:
    """True if one of the clusters is the goal or depends on it transitively. Dependents have higher ranks."""
    todo, seen = list(starts), set()
    while todo:
        c = todo.pop()
        if c is goal:
            return True
        if c not in seen and c.rank > goal.rank:
            seen.add(c)
            todo += c.needs
    return False


def _closure(start: Cluster, following: Callable[[Cluster], list[Cluster]]) -> set[Cluster]:
    found, todo = {start}, [start]
    while todo:
        new = [c for c in following(todo.pop()) if c not in found]
        found.update(new)
        todo += new
    return found
