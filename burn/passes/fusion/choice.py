"""The choice of fusion: which group each op of a block is in, and how the groups depend on each other."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from burn.dialect.control import captured, defined_symbols
from burn.dialect.dropout import RandomKept
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Concat
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.lower import has_rule
from burn.kernels.preferences import Preferences
from burn.passes.fusion.cluster import TILED, Cluster, Order, axes_of, size_of

FREE = Trait.GENERATED | Trait.VIEW
"""Ops whose elements are computed wherever they are read."""


class Choice:
    """The cluster of each op of a block, after `assign`. An op in no cluster is a view or constant, or stays unfused."""

    def __init__(
        self, block: ir.Block, max_ops: int, preferences: Preferences, updates: Collection[ir.Value] = ()
    ) -> None:
        """updates: the results of ops whose kernels compute nothing else, see `updates.py`."""
        self.block, self.max_ops, self.preferences, self.updates = block, max_ops, preferences, updates
        self.ops: list[Op] = [o.opview for o in block.operations if isinstance(o.opview, Op)]
        self.position = {o.operation: i for i, o in enumerate(self.ops)}
        self.cluster: dict[ir.Operation, Cluster] = {}
        self.opaque: dict[ir.Operation, Cluster] = {}  # library calls and control flow: nothing joins them
        self.crowded: set[Cluster] = set()  # loops that read many tensors
        self.order = Order()
        self.definers: dict[str, Op] = {name: op for op in self.ops for name in defined_symbols(op)}
        ordered = [op for op in self.ops if is_ordered(op)]
        self.before = {after.operation: op for op, after in pairwise(ordered)}  # by the next op with effects

    def cluster_of(self, value: ir.Value) -> Cluster | None:
        """The cluster of the op that defines a value. None for inputs, views and unfused ops."""
        op = op_of(value)
        return self.cluster.get(op.operation) if op is not None else None

    def source(self, value: ir.Value) -> ir.Value:
        """The value behind views that are in no cluster."""
        op = op_of(value)
        while op is not None and op.has(Trait.VIEW) and op.operation not in self.cluster and self.local(op):
            value = op.x
            op = op_of(value)
        return value

    def local(self, op: Op) -> bool:
        """True if an op is in this block."""
        return op.operation in self.position

    def is_materialised(self, op: Op) -> bool:
        """True if a view has a cluster of its own, or is in another block."""
        return not self.local(op) or op.operation in self.cluster

    def is_update(self, op: Op) -> bool:
        return bool(self.updates) and op.operation.results[0] in self.updates

    def producers(self, op: Op) -> list[Cluster]:
        """Clusters that compute the op's operands (looking through views), contractions, reductions and later ones first."""
        found: dict[Cluster, None] = {}
        for value in self._sources(op):
            producer = op_of(value)
            if producer is not None and producer.operation in self.cluster:
                found[self.cluster[producer.operation]] = None
        return sorted(found, key=lambda c: (c.kind not in TILED, c.kind not in ("reduce", "window"), -c.last))

    def _sources(self, op: Op) -> list[ir.Value]:
        """The op's operands, looking through views; without free constants."""
        found: list[ir.Value] = []
        for value in op.operation.operands:
            source = self.source(value)
            producer = op_of(source)
            if producer is None or not producer.has(Trait.GENERATED) or not has_rule(producer):
                found.append(source)
        return found

    def reads(self, op: Op) -> set[Cluster]:
        """The clusters that define the results and sizes that an op, its regions, and the views before it use. For an op with
        effects also the previous one."""
        found: set[Cluster] = set()
        todo, seen = [op], set()
        while todo:
            reader = todo.pop()
            producers = [op_of(v) for v in (*reader.operation.operands, *captured(reader))]
            if self.definers:
                producers += [self.definers.get(name) for name in used_symbols(reader)]
            producers.append(self.before.get(reader.operation))
            for producer in producers:
                if producer is None or producer.operation not in self.position or producer.operation in seen:
                    continue
                seen.add(producer.operation)
                unit = self.cluster.get(producer.operation) or self.opaque.get(producer.operation)
                if unit is not None:
                    found.add(unit)
                else:
                    todo.append(producer)
        return found

    def serves(self, other: Cluster, op: Op, cluster: Cluster | None = None, views: bool = False) -> bool:
        """True if only a cluster, and the op that joins it, reads what another computes. views: also through views."""
        inside = {m.operation for m in (*other.members, *(cluster.members if cluster else ()))} | {op.operation}
        todo = [r for m in other.members for r in m.operation.results]
        while todo:
            for use in todo.pop().uses:
                user = use.owner.opview
                if views and isinstance(user, Op) and user.has(Trait.VIEW) and not self.is_materialised(user):
                    todo.append(user.operation.results[0])
                elif user.operation not in inside:
                    return False
        return True

    def start(self, op: Op) -> Cluster:
        """A new group with an op as its first member."""
        kind = op.KERNEL or "loop"
        space = type_of(op.x).shape if kind == "reduce" else type_of(op.operation.results[0]).shape
        axes = axes_of(op) if kind == "reduce" else frozenset()
        cluster = Cluster(kind, space, axes=axes, is_update=self.is_update(op))
        cluster.closed = isinstance(op, RandomKept)  # in a layout of its own, neighbours share a call of the cipher
        self.join(op, cluster)
        return cluster

    def join(self, op: Op, cluster: Cluster) -> None:
        """Adds an op to a cluster, with the clusters that it reads. A reduction makes a loop a reduce group."""
        cluster.members.append(op)
        if isinstance(op, Concat):
            cluster.concats.append(op)
        cluster.size += size_of(op)
        cluster.last = self.position[op.operation]
        self.cluster[op.operation] = cluster
        self.order.add(cluster, self.reads(op))
        if op.has(Trait.REDUCTION):
            if cluster.kind == "loop":
                cluster.kind, cluster.axes = "reduce", axes_of(op)
            elif axes_of(op) != cluster.axes:
                cluster.across = axes_of(op)

    def merge(self, other: Cluster, cluster: Cluster) -> None:
        """Moves another cluster's ops into this one, with its dependences and dependents."""
        cluster.size += other.size
        cluster.concats += other.concats
        cluster.members = sorted([*other.members, *cluster.members], key=lambda m: self.position[m.operation])
        for member in other.members:
            self.cluster[member.operation] = cluster
        self.order.replace(other, cluster)

    def rewire(self, op: Op, old: ir.Value, new: ir.Value) -> None:
        """Makes an op read another value. An operation's Python hash changes with its operands."""
        cluster, position = self.cluster.pop(op.operation), self.position.pop(op.operation)
        for i, operand in enumerate(op.operation.operands):
            if operand == old:
                op.operation.operands[i] = new
        self.cluster[op.operation], self.position[op.operation] = cluster, position


def is_ordered(op: Op) -> bool:
    """True if an op, or one in its regions, has effects (`Trait.ORDERED`)."""
    return op.has(Trait.ORDERED) or any(
        isinstance(inner.opview, Op) and is_ordered(inner.opview)
        for region in op.operation.regions
        for block in region.blocks
        for inner in block.operations
    )
