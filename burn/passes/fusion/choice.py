"""The walk that assigns every op of a block to a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise

from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.control import captured, defined_symbols
from burn.dialect.convolution import Windows
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.dropout import RandomKept
from burn.dialect.indexing import Gather
from burn.dialect.library import Sort
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast, Pointwise
from burn.dialect.query import op_of
from burn.dialect.reduction import ArgReduce
from burn.dialect.shape import Concat, Pad, Reshape, Transpose
from burn.dialect.traits import Trait
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.body import EXPENSIVE
from burn.kernels.builders.concat import MAKERS
from burn.kernels.builders.loop import loads_together
from burn.kernels.builders.matrix import is_matmul
from burn.kernels.builders.sort import is_sortable
from burn.kernels.lower import has_rule
from burn.kernels.preferences import Preferences
from burn.passes.fusion.cluster import Cluster, Order, leads_to, size_of
from burn.passes.fusion.columns import reduce_columns
from burn.passes.fusion.concat_gradients import gradients_of
from burn.passes.fusion.joins import JOINS, TILED, axes_of, reads_rows
from burn.passes.fusion.reads import affine, contiguous, crosses

FREE = Trait.GENERATED | Trait.VIEW
"""Ops whose elements are computed wherever they are read."""

FEW = 16384
"""Elements that a kernel may store one by one."""

FEW_TAPS = 128
"""The most results of a channel in the gradient of a depthwise convolution's weight."""

LITTLE = 4
"""The most ops of a loop that is recomputed instead of run as a kernel of its own."""

MANY = 16
"""The least number of recomputations per element; with fewer, the results themselves are large."""

MANY_STREAMS = 4
"""From this many tensors beside a transposed one on, a loop gets it transposed by a kernel of its own. With an
in-register transpose the loop would read all of them a few elements at a time."""


class Choice:
    """The cluster of each op of a block, after `run`. An op in no cluster is a view or constant, or stays unfused."""

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

    def run(self) -> None:
        for op in self.ops[:-1]:
            if self._has_kernel(op) or (has_rule(op) and not op.has(FREE)):
                self._assign(op)
            elif op.has(Trait.VIEW):
                self._trailing_view(op)
            elif not op.has(Trait.GENERATED):
                self.opaque[op.operation] = unit = Cluster("opaque", (), [op])
                self.order.add(unit, self._reads(op))
        reduce_columns(self)
        loops = {c for c in self.cluster.values() if c.kind == "loop"}
        self.crowded = {c for c in loops if self._streams(c) >= MANY_STREAMS}
        self.materialize_views()

    def _has_kernel(self, op: Op) -> bool:
        if isinstance(op, Sort):
            return self.preferences.parallel_sort and is_sortable(type_of(op.x).dtype)
        return bool(op.KERNEL)

    # ---- choosing ------------------------------------------------------------------------------------------------------
    def _assign(self, op: Op) -> None:
        if self.preferences.concat_gradients and isinstance(op, Concat) and (found := gradients_of(self, op)):
            cluster, between = found
            for member in (*between, op):
                self._join(member, cluster)
            cluster.closed = True
            return
        alone = isinstance(op, RandomKept) or self._widens(op)
        for cluster in self._candidates(op) if not alone else ():
            if self._deferred_to_reduction(op, cluster) or cluster.is_update != self._is_update(op):
                continue
            if cluster.size < self.max_ops and not cluster.closed and self._joins(op, cluster):
                self._join(op, cluster)
                self._merge_producers(op, cluster)
                return
        cluster = self.start(op)
        self._merge_producers(op, cluster, new=True)
        if isinstance(op, Concat) and self.preferences.concat_in_place:
            self._take_operands(op, cluster)

    def _is_update(self, op: Op) -> bool:
        return bool(self.updates) and op.operation.results[0] in self.updates

    def _widens(self, op: Op) -> bool:
        """True if an op widens bytes that a matmul reads from memory: other readers should also read the bytes."""
        if not isinstance(op, Cast) or type_of(op.x).dtype not in ("int8", "uint8"):
            return False
        users = [use.owner.opview for use in op.x.uses]
        return type_of(op.operation.results[0]).element_bytes > 1 and any(
            isinstance(user, Op) and user.has(Trait.CONTRACTION) for user in users
        )

    def _deferred_to_reduction(self, op: Op, cluster: Cluster) -> bool:
        """True if a cheap op after a matmul is computed in a reduction of its result, from values that the matmul
        stores for another reduction anyway. A norm's backward pass then stores one tensor instead of three."""
        if cluster.kind != "contract" or not isinstance(op, Pointwise) or op.FUNCTION in EXPENSIVE:
            return False
        if self.preferences.repeat_reads or not _is_summed(op.operation.results[0]):
            return False  # recomputation is decided at the end if the target prefers it
        return any(self.cluster_of(v) is cluster and _is_summed(v) for v in op.operation.operands)

    def _merge_producers(self, op: Op, cluster: Cluster, new: bool = False) -> None:
        """Merges the loops that compute the op's other operands, if the cluster's kernel can compute them, and the
        producers of a concat's operands. new: the op started the cluster because it could join none."""
        todo = [op]
        while todo:
            reader = todo.pop()
            for other in self._candidates(reader):
                if (
                    other is not cluster
                    and other.is_update == cluster.is_update
                    and (other.kind == "loop" or (reader is op and not new and self._shares_rows(other, cluster)))
                    and (
                        other.kind == "reduce"
                        or (reader is op and not new and self._computes(other, op, cluster))
                        or (reader is op and self._repeats(other, op, cluster))
                        or self._computes_operand(other, op, cluster)
                        or (reader is op and self._pads(other, op))
                    )
                    and cluster.size + other.size <= self.max_ops
                    and not leads_to(cluster.needs - {other}, other)
                ):
                    todo += other.members if self._computes_operands(op) else []
                    self.merge(other, cluster)

    def _take_operands(self, op: Op, cluster: Cluster) -> None:
        """Moves a concat's operand, if the concat is its only reader, into the concat's cluster: its kernel writes into
        the result."""
        axis = op.axis % len(cluster.space)
        parts = list(op.xs)
        makes = Counter(id(self.cluster_of(x)) for x in parts)
        for x in parts:
            other, size = self.cluster_of(x), type_of(x).shape[axis]
            if (
                other is not None
                and other is not cluster
                and other.kind in MAKERS
                and isinstance(size, int)
                and makes[id(other)] == 1
                and len(list(x.uses)) == 1
                and self.serves(other, op)  # not what makes another part: each part is a kernel of its own
                and cluster.size + other.size <= self.max_ops
                and not leads_to(cluster.needs - {other}, other)
            ):
                self.merge(other, cluster)
                cluster.kind = "concat"

    def _shares_rows(self, other: Cluster, cluster: Cluster) -> bool:
        """True if two kernels reduce the same rows, which one kernel then reads once."""
        return (
            self.preferences.column_reduction_width > 0
            and other.kind == cluster.kind == "reduce"
            and (other.space, other.axes) == (cluster.space, cluster.axes)
            and not other.across
            and not cluster.across
            and not any(isinstance(m, ArgReduce) for m in (*other.members, *cluster.members))
            and not other.closed
            and all(reads_rows(self, m, other) for m in cluster.members)
        )

    def _computes(self, other: Cluster, op: Op, cluster: Cluster) -> bool:
        """True if a cluster's kernel can compute a loop over the same space."""
        together = cluster.kind in ("loop", "reduce", "window")
        return (together or (cluster.kind == "contract" and self.serves(other, op, cluster))) and all(
            (_moves(m) or (cluster.kind == "loop" and isinstance(m, Gather))) and JOINS[cluster.kind](self, m, cluster)
            for m in other.members
        )

    def _repeats(self, other: Cluster, op: Op, cluster: Cluster) -> bool:
        """True if a cluster's kernel should recompute a small loop for each of its many elements."""
        if not self.preferences.repeat_small or cluster.kind not in ("loop", "reduce", "contract", "attention"):
            return False
        return (
            not op.KERNEL
            and not isinstance(op, Concat)
            and _is_little(other)
            and is_wider(cluster.space, other.space)
            and self.serves(other, op, cluster, views=True)
        )

    def _computes_operand(self, other: Cluster, op: Op, cluster: Cluster) -> bool:
        """True if a loop computes an operand of a concat and is cheap enough to be evaluated for all elements of the
        result."""
        return self._computes_operands(op) and self._is_chain(other) and self.serves(other, op, cluster, views=True)

    def _is_chain(self, cluster: Cluster) -> bool:
        """True if a loop is cheap enough to be evaluated for all elements of a concat."""
        few = len(cluster.members) <= self.preferences.concat_chain
        return few and all(
            m.FUNCTION not in EXPENSIVE if isinstance(m, Pointwise) else self._computes_operands(m)
            for m in cluster.members
        )

    def _pads(self, other: Cluster, op: Op) -> bool:
        """True if a loop only pads an operand of a depthwise convolution, or of its weight's gradient, whose kernel loads
        each element once. The same for the image of another weight's gradient, if its kernel reads zeros outside of images."""
        if not self.preferences.sliding_windows or not all(isinstance(m, Pad) for m in other.members):
            return False
        # A view that is in memory would be a kernel between this loop and its reader.
        inline = all(affine(v, self.is_materialised) for v in op.operation.operands if self._shows(v, other))
        able = slides(op, self.preferences) or (self.preferences.padded_windows and _multiplies_windows(op))
        crossed = self._crosses(op) and any(self._turns(v) for v in op.operation.operands if self._shows(v, other))
        return able and not crossed and inline and self.serves(other, op, views=True)

    def _shows(self, value: ir.Value, other: Cluster) -> bool:
        """True if a value is a view of a result of the group."""
        return self.cluster_of(self.source(value)) is other

    def _turns(self, value: ir.Value) -> bool:
        """True if a transpose that changes the contiguous axis is among the views between a value and its source."""
        source = self.source(value)
        while value != source and (op := op_of(value)) is not None:
            if isinstance(op, Transpose) and not self._keeps_columns(op):
                return True
            value = op.x
        return False

    def _crosses(self, op: Op) -> bool:
        """True if channels are contiguous in one operand of a weight's gradient alone. Its kernel would load an element of each
        line of the other one at a time."""
        return isinstance(op, DotGeneral) and slides(op, self.preferences) and crosses(op, self.is_materialised)

    def _is_crossed(self, op: Op, cluster: Cluster) -> bool:
        """True for a transpose that a group reads from memory, so that both operands of a weight's gradient are contiguous along
        one axis."""
        if not isinstance(op, Transpose) or not self.preferences.sliding_windows or self._keeps_columns(op):
            return False
        return any(self._crosses(m) for m in cluster.members)

    def lowers_elementwise(self, op: Op) -> bool:
        """True if a concat is lowered elementwise, fused with its readers."""
        return self._computes_operands(op) or (isinstance(op, Concat) and loads_together(op, self.preferences))

    def _computes_operands(self, op: Op) -> bool:
        """True if the loop of a concat also has the producers of its operands."""
        return isinstance(op, Concat) and len(op.xs) <= self.preferences.concat_operands

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

    def merge(self, other: Cluster, cluster: Cluster) -> None:
        """Moves another cluster's ops into this one, with its dependences and dependents."""
        cluster.size += other.size
        cluster.concats += other.concats
        cluster.members = sorted([*other.members, *cluster.members], key=lambda m: self.position[m.operation])
        for member in other.members:
            self.cluster[member.operation] = cluster
        self.order.replace(other, cluster)

    def _candidates(self, op: Op) -> list[Cluster]:
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

    def source(self, value: ir.Value) -> ir.Value:
        """The value behind views that are in no cluster."""
        op = op_of(value)
        while op is not None and op.has(Trait.VIEW) and op.operation not in self.cluster and self.local(op):
            value = op.x
            op = op_of(value)
        return value

    def local(self, op: Op) -> bool:
        return op.operation in self.position

    def is_materialised(self, op: Op) -> bool:
        """True if a view has a cluster of its own, or is in another block."""
        return not self.local(op) or op.operation in self.cluster

    def _joins(self, op: Op, cluster: Cluster) -> bool:
        return JOINS[cluster.kind](self, op, cluster) and not self._makes_cycle(op, cluster)

    def _makes_cycle(self, op: Op, cluster: Cluster) -> bool:
        """True if the op reads a value that itself depends on the cluster."""
        return leads_to(self._reads(op) - {cluster}, cluster)

    def _reads(self, op: Op) -> set[Cluster]:
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

    def cluster_of(self, value: ir.Value) -> Cluster | None:
        op = op_of(value)
        return self.cluster.get(op.operation) if op is not None else None

    def _join(self, op: Op, cluster: Cluster) -> None:
        cluster.members.append(op)
        if isinstance(op, Concat):
            cluster.concats.append(op)
        cluster.size += size_of(op)
        cluster.last = self.position[op.operation]
        self.cluster[op.operation] = cluster
        self.order.add(cluster, self._reads(op))
        if op.has(Trait.REDUCTION):
            if cluster.kind == "loop":
                cluster.kind, cluster.axes = "reduce", axes_of(op)
            elif axes_of(op) != cluster.axes:
                cluster.across = axes_of(op)

    def rewire(self, op: Op, old: ir.Value, new: ir.Value) -> None:
        """Makes an op read another value. An operation's Python hash changes with its operands."""
        cluster, position = self.cluster.pop(op.operation), self.position.pop(op.operation)
        for i, operand in enumerate(op.operation.operands):
            if operand == old:
                op.operation.operands[i] = new
        self.cluster[op.operation], self.position[op.operation] = cluster, position

    def start(self, op: Op) -> Cluster:
        """A new group with an op as its first member."""
        kind = op.KERNEL or "loop"
        space = type_of(op.x).shape if kind == "reduce" else type_of(op.operation.results[0]).shape
        axes = axes_of(op) if kind == "reduce" else frozenset()
        cluster = Cluster(kind, space, axes=axes, is_update=self._is_update(op))
        cluster.closed = isinstance(op, RandomKept)  # in a layout of its own, neighbours share a call of the cipher
        self._join(op, cluster)
        return cluster

    def _trailing_view(self, op: Op) -> None:
        """A transpose or reshape that is the only reader of a contraction's result: the kernel stores in that order."""
        cluster = self.cluster_of(op.x)
        if cluster is None or cluster.kind not in TILED or not isinstance(op, Transpose | Reshape):
            return
        if isinstance(op, Transpose) and not self._keeps_columns(op) and not self._slides(cluster):
            return
        alone = len(list(op.x.uses)) == 1 and isinstance(op, Transpose)
        if alone or (isinstance(op, Reshape) and self._then_transposed(op)):
            self._join(op, cluster)
            cluster.closed = True

    def _then_transposed(self, op: Op) -> bool:
        users = [u.owner for u in op.operation.results[0].uses]
        if len(list(op.x.uses)) != 1 or len(users) != 1 or users[0].name != "burn.transpose":
            return False
        return self._keeps_columns(users[0].opview)

    def _keeps_columns(self, op: Op) -> bool:
        """True if a transpose keeps the contiguous axis, or the tensor is small: strided stores cost more than a
        transposing kernel."""
        elements = type_of(op.x).elements
        return op.permutation[-1] == len(op.permutation) - 1 or (isinstance(elements, int) and elements <= FEW)

    def _slides(self, cluster: Cluster) -> bool:
        """True if the target's kernel of a group can iterate in any order: that of a depthwise convolution."""
        return self.preferences.sliding_windows and any(
            isinstance(m, Conv) and slides(m, self.preferences) for m in cluster.members
        )

    def inlines(self, cluster: Cluster, user: Op, value: ir.Value) -> bool:
        """True if a view or constant is computed inside the cluster rather than read from memory."""
        op = op_of(value)
        if op is None or not self.local(op) or not has_rule(op) or not op.has(FREE):
            return False
        if self._is_crossed(op, cluster):
            return False
        if user.has(Trait.CONTRACTION):
            if not op.has(Trait.VIEW) or not affine(value, self.is_materialised):
                return False
            if isinstance(user, Conv) and self._slides(cluster):
                # The result is stored in the order in which operands are read, or the kernel pads the operand itself.
                return isinstance(cluster.members[-1], Transpose) or self._computes_behind(cluster, op)
            if user.has(Trait.PACKED) and value != user.operands[0]:
                return False  # panels must be in memory
            return contiguous(user, value, self.is_materialised, self.preferences.strided_columns)
        if cluster in self.crowded and isinstance(op, Transpose) and not user.has(Trait.VIEW):
            return self._keeps_columns(op) or self._computes_behind(cluster, op)
        if user.has(Trait.ATTENTION) and not any(value == x for x in (user.mask, user.lengths) if x is not None):
            return op.has(Trait.VIEW) and affine(value, self.is_materialised)
        return True

    def is_stored_for(self, cluster: Cluster, user: Op, value: ir.Value) -> bool:
        """True if a view that no group computes would need a kernel of its own for this reader."""
        op = op_of(value)
        stored = op is None or not op.has(Trait.VIEW) or isinstance(op, Reshape) or self.is_materialised(op)
        return not stored and not self.inlines(cluster, user, value)

    def _streams(self, cluster: Cluster) -> int:
        """The number of tensors of a loop's own shape that it loads and stores contiguously."""
        inside = {m.operation for m in cluster.members}
        read = {
            v
            for m in cluster.members
            for v in m.operation.operands
            if not isinstance(v.owner, ir.Operation) or v.owner not in inside
        }
        made = [r for m in cluster.members for r in m.operation.results]
        written = [r for r in made if any(use.owner.operation not in inside for use in r.uses)]
        transposes = {v for v in read if (op := op_of(v)) is not None and isinstance(op, Transpose)}
        return sum(type_of(v).shape == cluster.space for v in (*(read - transposes), *written))

    def in_memory(self, cluster: Cluster, op: Op) -> bool:
        """True if a cluster reads an op's result from memory. It does not for a view of its own result, even if the
        view is in memory for others: it would depend on itself."""
        return op.operation in self.cluster and not self._computes_behind(cluster, op)

    def _computes_behind(self, cluster: Cluster, op: Op) -> bool:
        """True if an op is a view of the cluster's own result, possibly through views in memory."""
        inner: Op | None = op
        while inner is not None and inner.has(Trait.VIEW) and self.cluster.get(inner.operation) is not cluster:
            inner = op_of(inner.x)
        return inner is not None and inner is not op and self.cluster.get(inner.operation) is cluster

    def materialize_views(self) -> None:
        """Gives views (and constants) a cluster of their own if something reads them from memory."""
        while self._materialize_views():  # a view in memory changes how the views after it can be read
            pass

    def _materialize_views(self) -> bool:
        """The same, once; returns True if it did."""
        started = False
        for op in reversed(self.ops[:-1]):
            if not op.has(FREE) or not has_rule(op) or op.operation in self.cluster:
                continue
            result = op.operation.results[0]
            wanted = any(self._reads_memory(use.owner, result) for use in result.uses)
            if wanted and not isinstance(op, Reshape):
                self._take_producer(op, self.start(op))
                started = True
        return started

    def _take_producer(self, op: Op, cluster: Cluster) -> None:
        """Computes a cheap loop that only a transpose in memory reads where the transpose reads it. Examples are a weight's cast,
        the padding of a first convolution's image, and a concat of the gradients of queries, keys and values."""
        if not isinstance(op, Transpose) or not self.preferences.repeat_small:
            return
        other = self.cluster_of(self.source(op.x))
        if other is None or other.kind != "loop" or other.closed or cluster.size + other.size > self.max_ops:
            return
        little = _is_little(other) or all(isinstance(m, Pad) for m in other.members) or self._joins_runs(other, op)
        if little and self.serves(other, op, views=True):
            self.merge(other, cluster)

    def _joins_runs(self, cluster: Cluster, op: Op) -> bool:
        """True if a loop only joins tensors, whose runs of contiguous elements a transpose keeps."""
        joins = [m for m in cluster.members if isinstance(m, Concat)]
        return len(joins) == len(cluster.members) == 1 and self.lowers_elementwise(joins[0]) and self._keeps_columns(op)

    def _reads_memory(self, user: ir.Operation | ir.OpView, value: ir.Value) -> bool:
        operation = user.operation
        if operation not in self.position:
            return True  # in a nested region
        op = operation.opview
        if operation in self.cluster:
            return not self.inlines(self.cluster[operation], op, value)
        if op.has(FREE):  # a view of a view: inline it if that is only ever computed inline
            result = op.operation.results[0]
            if isinstance(op, Reshape) and any(self._reads_memory(u.owner, result) for u in result.uses):
                return True
            viewed = op_of(value)
            return viewed is not None and any(self._is_crossed(viewed, reader) for reader in self._readers(result))
        return True

    def _readers(self, value: ir.Value) -> Iterator[Cluster]:
        """The groups that read a value, and views of it that are in no group."""
        for use in value.uses:
            operation = use.owner.operation
            if operation in self.cluster:
                yield self.cluster[operation]
            elif operation in self.position and operation.opview.has(FREE):
                yield from self._readers(operation.results[0])


def slides(op: Op, preferences: Preferences) -> bool:
    """True for a depthwise convolution, and for its weight's gradient: a matmul with a few results for each channel."""
    if isinstance(op, DotGeneral):
        results = product(type_of(op.operation.results[0]).shape[len(op.lhs_batch) :])
        return bool(op.lhs_batch) and isinstance(results, int) and 1 < results <= FEW_TAPS
    return isinstance(op, Conv) and op.groups > 1 and not is_matmul(op, preferences)


def _multiplies_windows(op: Op) -> bool:
    """True for the gradient of a convolution's weight in half precision. Windows are neighbours along the last axis, and channels
    are whole words of 16 bytes."""
    windows = op_of(op.lhs) if isinstance(op, DotGeneral) and not op.lhs_batch else None
    if not isinstance(windows, Windows) or type_of(op.lhs).dtype not in HALF_DTYPES:
        return False
    channels = type_of(op.lhs).shape[-1]
    return windows.strides[-1] == 1 and len(windows.strides) == 2 and exact_div(channels, 8) is not None


def is_ordered(op: Op) -> bool:
    """True if an op, or one in its regions, has effects (`Trait.ORDERED`)."""
    return op.has(Trait.ORDERED) or any(
        isinstance(inner.opview, Op) and is_ordered(inner.opview)
        for region in op.operation.regions
        for block in region.blocks
        for inner in block.operations
    )


def _is_summed(value: ir.Value) -> bool:
    return any(use.owner.name == "burn.reduce" for use in value.uses)


def _is_little(cluster: Cluster) -> bool:
    """True if a loop applies only a few cheap functions to an element."""
    return len(cluster.members) <= LITTLE and all(
        isinstance(m, Pointwise) and m.FUNCTION not in EXPENSIVE for m in cluster.members
    )


def is_wider(space: tuple[Dim, ...], other: tuple[Dim, ...]) -> bool:
    """True if a space is many times larger than another, whose sizes are all numbers."""
    many, few = product(space), product(other)
    return isinstance(few, int) and (not isinstance(many, int) or many >= MANY * few)


def _moves(op: Op) -> bool:
    """True if an op costs the same in any kernel."""
    return isinstance(op, Pointwise | Pad)
