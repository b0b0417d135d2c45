"""Fusion: ops that one kernel can compute move into a `burn.group`.

Ops are taken in program order. Each joins the group of one of its operands where the group's kernel can compute it too
(`_joins`, a table by the group's kind) and where that makes no cycle between groups; else it starts a group. Views and
constants cost nothing at any place and are copied into every group that reads them; a view that something else reads becomes
a group of its own (a copy), or stays (a reshape, which is no work).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from burn.codegen.body import Load
from burn.codegen.groups import loops, place, reduced_axes
from burn.codegen.lower import Lowering, has_rule, op_of
from burn.dialect import ops
from burn.dialect.control import Group, defined_symbols
from burn.dialect.dims import Call, Dim, LoopVar, coefficient, symbols
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.errors import CompileError
from burn.passes.pipeline import register

FREE = frozenset(("full", "constant", "iota", "dim_values"))
VIEWS = frozenset(("reshape", "transpose", "slice", "broadcast_to"))
ANCHORS = {
    "reduce": "reduce",
    "arg_reduce": "reduce",
    "window_reduce": "window",
    "dot_general": "contract",
    "conv": "contract",
    "cumulative": "cumulative",
    "scatter_elements": "scatter",
    "scatter_nd": "scatter",
}
"""Ops that decide what kernel a group becomes."""


@dataclass(eq=False)
class Cluster:
    """A group in the making. `space` is the shape its kernel iterates over."""

    kind: str
    space: tuple[Dim, ...]
    members: list[Op] = field(default_factory=list)
    axes: frozenset[int] = frozenset()  # of a reduce group
    last: int = 0  # its latest member's position in program order
    needs: set[Cluster] = field(default_factory=set)  # clusters whose results or sizes it reads
    users: set[Cluster] = field(default_factory=set)  # the other way round
    rank: int = 0  # more than that of all it needs
    closed: bool = False  # has a view at its end: nothing more may join


@register
@dataclass(frozen=True)
class Fuse:
    """`max-ops` bounds a group's size."""

    name: ClassVar[str] = "fuse"
    max_ops: int = 48

    def run(self, program: Program) -> None:
        with context():
            self.block(program.block)

    def block(self, block: ir.Block) -> None:
        for operation in block.operations:
            if operation.operation.name == "burn.group":
                continue  # fused before
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self.block(inner)
        _Fusion(block, self.max_ops).run()


class _Fusion:
    """Fusion of one block."""

    def __init__(self, block: ir.Block, max_ops: int) -> None:
        self.block, self.max_ops = block, max_ops
        self.ops: list[Op] = [o.opview for o in block.operations if isinstance(o.opview, Op)]
        self.position = {o.operation: i for i, o in enumerate(self.ops)}
        self.cluster: dict[ir.Operation, Cluster] = {}
        self.opaque: dict[ir.Operation, Cluster] = {}  # library calls and control flow: nothing joins them
        self.clusters: list[Cluster] = []
        self.inputs: dict[Cluster, dict[ir.Value, None]] = {}
        self._ranks = 0
        self.definers: dict[str, Op] = {name: op for op in self.ops for name in defined_symbols(op)}

    def run(self) -> None:
        for op in self.ops[:-1]:
            if op.OP_NAME in ANCHORS or (has_rule(op) and op.OP_NAME not in FREE | VIEWS):
                self._place(op)
            elif op.OP_NAME in VIEWS:
                self._trailing_view(op)
            elif op.OP_NAME not in FREE:
                self.opaque[op.operation] = unit = Cluster("opaque", (), [op])
                self._add(unit, self._reads(op))
        self._materialize_views()
        _Rebuild(self).run()

    # ---- choosing ------------------------------------------------------------------------------------------------------
    def _place(self, op: Op) -> None:
        for cluster in self._candidates(op):
            if len(cluster.members) < self.max_ops and not cluster.closed and self._joins(op, cluster):
                self._join(op, cluster)
                self._unite(op, cluster)
                return
        self._start(op)

    def _unite(self, op: Op, cluster: Cluster) -> None:
        """Takes in the loops that compute the op's other operands, where the cluster's kernel can compute them too."""
        for other in self._candidates(op):
            if (
                other is not cluster
                and other.kind == "loop"
                and cluster.kind in ("loop", "reduce")
                and len(cluster.members) + len(other.members) <= self.max_ops
                and all(isinstance(m, Pointwise) and _JOINS[cluster.kind](self, m, cluster) for m in other.members)
                and not self._between(other, cluster)
            ):
                self._merge(other, cluster)

    @staticmethod
    def _between(first: Cluster, last: Cluster) -> bool:
        """Whether something else needs the first and is needed by the last."""
        todo, seen = [c for c in last.needs if c is not first], set()
        while todo:
            c = todo.pop()
            if first in c.needs:
                return True
            if c not in seen and c.rank > first.rank:
                seen.add(c)
                todo += c.needs
        return False

    def _merge(self, other: Cluster, cluster: Cluster) -> None:
        """Moves another cluster's ops into this one, with all that it needs and that needs it."""
        cluster.members = sorted([*other.members, *cluster.members], key=lambda m: self.position[m.operation])
        for member in other.members:
            self.cluster[member.operation] = cluster
        self.clusters.remove(other)
        for source in other.needs:
            source.users.discard(other)
        for user in other.users:
            user.needs.discard(other)
        self._add(cluster, other.needs)
        for user in other.users - {cluster}:
            self._add(user, {cluster})

    def _candidates(self, op: Op) -> list[Cluster]:
        """Clusters that compute what the op reads (views in between), contractions and later ones first."""
        found: dict[Cluster, None] = {}
        for value in self._sources(op):
            producer = op_of(value)
            if producer is not None and producer.operation in self.cluster:
                found[self.cluster[producer.operation]] = None
        return sorted(found, key=lambda c: (c.kind != "contract", -c.last))

    def _sources(self, op: Op) -> list[ir.Value]:
        """What an op reads, seen through views; constants that cost nothing left out."""
        found: list[ir.Value] = []
        for value in op.operation.operands:
            source = self.source(value)
            producer = op_of(source)
            if producer is None or producer.OP_NAME not in FREE or not has_rule(producer):
                found.append(source)
        return found

    def source(self, value: ir.Value) -> ir.Value:
        """The value behind views that are not part of a cluster themselves."""
        op = op_of(value)
        while op is not None and op.OP_NAME in VIEWS and op.operation not in self.cluster and self._local(op):
            value = op.x
            op = op_of(value)
        return value

    def _local(self, op: Op) -> bool:
        return op.operation in self.position

    def _joins(self, op: Op, cluster: Cluster) -> bool:
        return _JOINS[cluster.kind](self, op, cluster) and not self._makes_cycle(op, cluster)

    def _makes_cycle(self, op: Op, cluster: Cluster) -> bool:
        """Whether the op reads something that itself needs the cluster. What needs it has a higher rank."""
        todo, seen = [c for c in self._reads(op) if c is not cluster], set()
        while todo:
            c = todo.pop()
            if c is cluster:
                return True
            if c not in seen and c.rank > cluster.rank:
                seen.add(c)
                todo += c.needs
        return False

    def _reads(self, op: Op) -> set[Cluster]:
        """The clusters that results and sizes come from which an op, its regions, and the views in front of it use."""
        found: set[Cluster] = set()
        todo, seen = [op], set()
        while todo:
            reader = todo.pop()
            producers = [op_of(v) for v in (*reader.operation.operands, *outer_values(reader))]
            producers += [self.definers.get(name) for name in used_symbols(reader)]
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

    def _add(self, cluster: Cluster, needs: set[Cluster]) -> None:
        """Notes what a cluster needs and keeps the ranks in order. A new cluster comes last.

        Source: Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006."""
        if cluster.rank == 0:
            self._ranks += 1
            cluster.rank = self._ranks
        for source in needs - cluster.needs - {cluster}:
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

    def _cluster_of(self, value: ir.Value) -> Cluster | None:
        op = op_of(value)
        return self.cluster.get(op.operation) if op is not None else None

    def _join(self, op: Op, cluster: Cluster) -> None:
        cluster.members.append(op)
        cluster.last = self.position[op.operation]
        self.cluster[op.operation] = cluster
        self._add(cluster, self._reads(op))
        if op.OP_NAME in ("reduce", "arg_reduce") and cluster.kind == "loop":
            cluster.kind, cluster.axes = "reduce", _axes(op)

    def _start(self, op: Op) -> Cluster:
        kind = ANCHORS.get(op.OP_NAME, "loop")
        space = type_of(op.x).shape if kind == "reduce" else type_of(op.operation.results[0]).shape
        cluster = Cluster(kind, space, axes=_axes(op) if kind == "reduce" else frozenset())
        self.clusters.append(cluster)
        self._join(op, cluster)
        return cluster

    def _trailing_view(self, op: Op) -> None:
        """A transpose or reshape of a contraction's result that nothing else reads: the kernel stores in that order."""
        cluster = self._cluster_of(op.x)
        if cluster is None or cluster.kind != "contract" or op.OP_NAME not in ("transpose", "reshape"):
            return
        alone = len(list(op.x.uses)) == 1 and op.OP_NAME == "transpose"
        if alone or (op.OP_NAME == "reshape" and self._then_transposed(op)):
            self._join(op, cluster)
            cluster.closed = True

    def _then_transposed(self, op: Op) -> bool:
        users = [u.owner for u in op.operation.results[0].uses]
        return len(list(op.x.uses)) == 1 and len(users) == 1 and users[0].name == "burn.transpose"

    def inlines(self, cluster: Cluster, user: Op, value: ir.Value) -> bool:
        """Whether a view or constant is computed inside the cluster rather than read from memory."""
        op = op_of(value)
        if op is None or not self._local(op) or not has_rule(op) or op.OP_NAME not in FREE | VIEWS:
            return False
        if user.OP_NAME in ("dot_general", "conv"):
            return op.OP_NAME in VIEWS and affine(value, self) and contiguous(user, value, self)
        return True

    def _materialize_views(self) -> None:
        """Gives views (and constants) a cluster of their own where something reads them from memory."""
        for op in reversed(self.ops[:-1]):
            if op.OP_NAME not in FREE | VIEWS or not has_rule(op) or op.operation in self.cluster:
                continue
            result = op.operation.results[0]
            wanted = any(self._reads_memory(use.owner, result) for use in result.uses)
            if wanted and op.OP_NAME != "reshape":
                self._start(op)

    def _reads_memory(self, user: ir.Operation | ir.OpView, value: ir.Value) -> bool:
        operation = user.operation
        if operation not in self.position:
            return True  # in a nested region
        op = operation.opview
        if operation in self.cluster:
            return not self.inlines(self.cluster[operation], op, value)
        if op.OP_NAME in FREE | VIEWS:  # a view of a view: if that is only ever computed in place, so is this
            return op.OP_NAME == "reshape" and any(
                self._reads_memory(u.owner, op.operation.results[0]) for u in op.operation.results[0].uses
            )
        return True


def _axes(op: Op) -> frozenset[int]:
    rank = len(type_of(op.x).shape)
    return frozenset(a % rank for a in reduced_axes(op)) if rank else frozenset()


def _closure(start: Cluster, following: Callable[[Cluster], list[Cluster]]) -> set[Cluster]:
    found, todo = {start}, [start]
    while todo:
        new = [c for c in following(todo.pop()) if c not in found]
        found.update(new)
        todo += new
    return found


def used_symbols(op: Op) -> set[str]:
    """The sizes that an op needs, in its regions too, but for those it defines."""
    names: set[str] = set()
    for region in op.operation.regions:
        for block in region.blocks:
            for operation in block.operations:
                if isinstance(operation.opview, Op):
                    names |= used_symbols(operation.opview)
    for value in (*op.operation.operands, *op.operation.results):
        if isinstance(value.type, ir.RankedTensorType):
            for d in type_of(value).shape:
                names |= symbols(d)
    for value in op.attrs.values():
        if isinstance(value, tuple):
            for d in value:
                if not isinstance(d, (int, float, str)):
                    names |= symbols(d)
    return names - defined_symbols(op)


def affine(value: ir.Value, fusion: _Fusion | None = None) -> bool:
    """Whether element (i, j, ..) of a view is found by a sum of products: no division, no test."""
    load = _load_of(value, fusion)
    return load is not None and not any(isinstance(a, Call) for m, _ in _terms(load.offset) for a in m)


def _terms(dim: Dim) -> Iterable[tuple[tuple, int]]:
    return () if isinstance(dim, int) else dim.terms


def _load_of(value: ir.Value, fusion: _Fusion | None) -> Load | None:
    variables = loops(type_of(value).shape)

    def inside(v: ir.Value) -> bool:
        op = op_of(v)
        if op is None or op.OP_NAME not in VIEWS:
            return False
        return fusion is None or (op.operation in fusion.position and op.operation not in fusion.cluster)

    scalar = Lowering(inside).at(value, place(variables))
    return scalar if isinstance(scalar, Load) else None


def contiguous(user: Op, value: ir.Value, fusion: _Fusion | None) -> bool:
    """For a dot's right-hand side: whether the columns lie side by side, as the kernel reads them."""
    if user.OP_NAME != "dot_general" or user.rhs != value:
        return user.OP_NAME != "conv"
    shape = type_of(value).shape
    columns = [a for a in range(len(shape)) if a not in (*user.rhs_batch, *user.rhs_contract)]
    if not columns:
        return True
    load = _load_of(value, fusion)
    assert load is not None
    return shape[columns[-1]] == 1 or coefficient(load.offset, LoopVar(f"i{columns[-1]}", shape[columns[-1]])) == 1


# ---- what may join what ------------------------------------------------------------------------------------------------


def _shape(op: Op) -> tuple[Dim, ...]:
    return type_of(op.operation.results[0]).shape


def _direct(fusion: _Fusion, op: Op, cluster: Cluster) -> bool:
    """Whether everything the op reads of the cluster it reads as it is, not through a view."""
    for value in op.operation.operands:
        if fusion._cluster_of(fusion.source(value)) is cluster and fusion._cluster_of(value) is not cluster:
            return False
    return True


def _joins_loop(fusion: _Fusion, op: Op, cluster: Cluster) -> bool:
    if op.OP_NAME in ("reduce", "arg_reduce"):
        return (
            type_of(op.x).shape == cluster.space and fusion._cluster_of(op.x) is cluster and _worth_joining(cluster, op)
        )
    if op.OP_NAME in ANCHORS or op.OP_NAME == "concat":
        return False
    if any(m.OP_NAME == "concat" for m in cluster.members):
        return False
    return _shape(op) == cluster.space and _direct(fusion, op, cluster)


def _worth_joining(cluster: Cluster, op: Op) -> bool:
    """A reduction of everything runs on one thread: what comes before it had better not."""
    kept = [d for i, d in enumerate(cluster.space) if i not in _axes(op)]
    return any(d != 1 for d in kept)


def _joins_reduce(fusion: _Fusion, op: Op, cluster: Cluster) -> bool:
    if op.OP_NAME in ("reduce", "arg_reduce"):
        arg = any(m.OP_NAME == "arg_reduce" for m in (*cluster.members, op))
        return (
            not arg
            and type_of(op.x).shape == cluster.space
            and _axes(op) == cluster.axes
            and fusion._cluster_of(op.x) is cluster
        )
    if not isinstance(op, Pointwise):
        return False
    kept = tuple(1 if i in cluster.axes else d for i, d in enumerate(cluster.space))
    squeezed = tuple(d for i, d in enumerate(cluster.space) if i not in cluster.axes)
    shape = _shape(op)
    if shape not in (cluster.space, kept, squeezed):
        return False
    for value in op.operation.operands:
        source = fusion.source(value)
        if fusion._cluster_of(source) is not cluster:
            continue
        have = type_of(source).shape
        if have == cluster.space != kept:
            if shape != cluster.space or source != value:
                return False
        elif not _same_rows(value, source, shape, cluster, kept, squeezed):
            return False
    return True


def _same_rows(value, source, shape, cluster: Cluster, kept, squeezed) -> bool:
    """Whether a reduction's result, seen through views, is read at the row it belongs to: views only add or drop the reduced
    axes' ones, or repeat along them."""
    allowed = (kept, cluster.space)
    op = op_of(value)
    while value != source:
        assert op is not None
        mine, theirs = _shape(op), type_of(op.x).shape
        fine = (
            mine in (*allowed, squeezed)
            and theirs in (*allowed, squeezed)
            and op.OP_NAME in ("reshape", "broadcast_to")
        )
        if not fine:
            return False
        value = op.x
        op = op_of(value)
    last = type_of(source).shape
    if last == squeezed and shape != squeezed:  # numpy's broadcasting aligns at the last axis: rows must not shift
        return source != value or kept == squeezed
    return True


def _joins_epilogue(fusion: _Fusion, op: Op, cluster: Cluster) -> bool:
    return isinstance(op, Pointwise) and _shape(op) == cluster.space and _direct(fusion, op, cluster)


_JOINS: dict[str, Callable[[_Fusion, Op, Cluster], bool]] = {
    "loop": _joins_loop,
    "reduce": _joins_reduce,
    "window": _joins_epilogue,
    "contract": _joins_epilogue,
    "cumulative": lambda *_: False,
    "scatter": lambda *_: False,
}


# ---- writing the result ------------------------------------------------------------------------------------------------


class _Rebuild:
    """Puts clusters and the ops outside them into an order that respects every use, and makes the groups."""

    def __init__(self, fusion: _Fusion) -> None:
        self.fusion = fusion
        self.values: dict[ir.Value, ir.Value] = {}  # a value inside a cluster -> the group's result
        self.done: set[object] = set()
        self.terminator = list(fusion.block.operations)[-1].operation

    def run(self) -> None:
        for op in self.fusion.ops[:-1]:
            if self._stands(op):
                self._emit(self._unit(op))
        # An operation's Python hash changes with its operands: everything is looked up before any use is replaced.
        replaced = [
            op.operation for op in self.fusion.ops[:-1] if op.operation in self.fusion.cluster or self._dissolves(op)
        ]
        for old, new in self.values.items():
            old.replace_all_uses_with(new)
        for operation in reversed(replaced):
            if not any(list(r.uses) for r in operation.results):
                operation.erase()

    def _dissolves(self, op: Op) -> bool:
        return op.operation not in self.fusion.cluster and op.OP_NAME in FREE | VIEWS and has_rule(op)

    def _unit(self, op: Op) -> object:
        return self.fusion.cluster.get(op.operation, op)

    def _stands(self, op: Op) -> bool:
        return (
            op.operation in self.fusion.cluster
            or op.OP_NAME not in FREE | VIEWS
            or op.OP_NAME == "reshape"
            or not has_rule(op)
        )

    def _emit(self, unit: object) -> None:
        """Emits what the unit reads, then the unit. An explicit stack: programs are deep."""
        stack: list[tuple[object, bool]] = [(unit, False)]
        waiting: set[object] = set()
        while stack:
            current, ready = stack.pop()
            if current in self.done:
                continue
            if ready:
                self.done.add(current)
                self._write(current)
                continue
            if current in waiting:
                raise CompileError("internal: fusion made groups that need each other")
            waiting.add(current)
            stack.append((current, True))
            for needed in self._needs(current):
                if needed not in self.done:
                    stack.append((needed, False))

    def _needs(self, unit: object) -> list[object]:
        assert isinstance(unit, Cluster | Op)
        members = unit.members if isinstance(unit, Cluster) else [unit]
        found: list[object] = []
        seen: set[ir.Value] = set()
        for op in members:
            for value in (*op.operation.operands, *outer_values(op)):
                self._value_needs(unit, op, value, seen, found)
            self._symbol_needs(op, found)
        return [u for u in found if u is not unit]

    def _value_needs(self, unit: object, user: Op, value: ir.Value, seen: set[ir.Value], found: list[object]) -> None:
        op = op_of(value)
        if op is None or value in seen or op.operation not in self.fusion.position:
            return
        seen.add(value)
        inlined = isinstance(unit, Cluster) and self.fusion.inlines(unit, user, value)
        if op.operation in self.fusion.cluster or not inlined:
            found.append(self._unit(op))
            return
        self._symbol_needs(op, found)
        for operand in op.operation.operands:
            self._value_needs(unit, op, operand, seen, found)

    def _read_outside(self, result: ir.Value, cluster: Cluster, members: set[ir.Operation]) -> bool:
        """Whether anything but the cluster itself reads a value, directly or through views."""
        for use in result.uses:
            operation = use.owner.operation
            if operation in members:
                continue
            op = operation.opview
            if not (operation in self.fusion.position and isinstance(op, Op) and self._dissolves(op)):
                return True
            inner = op.operation.results[0]
            for reader in inner.uses:
                user = reader.owner.operation
                if user in members and self.fusion.inlines(cluster, user.opview, inner):
                    continue
                if user in members or self._read_outside(inner, cluster, members):
                    return True
        return False

    def _symbol_needs(self, op: Op, found: list[object]) -> None:
        """The ops that define the sizes an op uses."""
        for name in used_symbols(op):
            definer = self.fusion.definers.get(name)
            if definer is not None:
                found.append(self._unit(definer))

    def _write(self, unit: object) -> None:
        if isinstance(unit, Op):
            unit.operation.move_before(self.terminator)
            return
        assert isinstance(unit, Cluster)
        cluster = unit
        inside: dict[ir.Value, ir.Value] = {}
        members = {m.operation for m in cluster.members}
        outputs = []
        for m in cluster.members:
            for result in m.operation.results:
                if self._read_outside(result, cluster, members):
                    outputs.append(result)
        if not outputs:
            return  # nothing reads it: it is erased with what was fused
        inputs: dict[ir.Value, None] = {}
        for m in cluster.members:
            for operand in m.operation.operands:
                self._collect(cluster, m, operand, members, inputs)
        types_ = [type_of(v) for v in outputs]
        mapped = [self.values.get(v, v) for v in inputs]
        with cluster.members[0].operation.location, ir.InsertionPoint(self.terminator):
            group = Group.create(mapped, kind=cluster.kind, result_types=types_)
            block = group.regions[0].blocks.append(*[v.type for v in inputs])
        inside.update(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for m in cluster.members:
                self._clone(m.operation, inside, set(inputs))
            with cluster.members[-1].operation.location:
                ops.yield_([inside[v] for v in outputs])
        self.values.update(zip(outputs, group.results, strict=True))

    def _collect(self, cluster: Cluster, user: Op, value: ir.Value, members: set, inputs: dict[ir.Value, None]) -> None:
        """Finds what the cluster reads from memory; views in between are computed inside."""
        op = op_of(value)
        if op is not None and op.operation in members:
            return
        outside = op is None or op.operation in self.fusion.cluster or not self.fusion.inlines(cluster, user, value)
        if outside:
            inputs[value] = None
            return
        assert op is not None
        for operand in op.operation.operands:
            # once the whole chain of views is known to be affine, each part of it is
            self._collect(cluster, op, operand, members, inputs)

    def _clone(self, operation: ir.Operation, inside: dict[ir.Value, ir.Value], inputs: set[ir.Value]) -> None:
        operands = []
        for operand in operation.operands:
            if operand not in inside:
                assert operand not in inputs
                self._clone(operand.owner, inside, inputs)
            operands.append(inside[operand])
        copy = operation.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        inside.update(zip(operation.results, copy.operation.results, strict=True))


def outer_values(op: Op) -> list[ir.Value]:
    """Values from outside that an op's regions read."""
    found: list[ir.Value] = []
    for region in op.operation.regions:
        for block in region.blocks:
            for operation in block.operations:
                found += list(operation.operation.operands)
                inner = operation.opview
                if isinstance(inner, Op):
                    found += outer_values(inner)
    return found
