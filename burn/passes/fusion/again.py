"""Values that a kernel computes again from what lies in memory anyway, where that moves fewer bytes than to store and read them.

The way back of a normalisation, say, needs its normalised input: three times as large as the input in half precision and two
numbers a row, of which it follows. `repeat` runs when it is known which group each op belongs to.
"""

from __future__ import annotations

from burn.dialect.dims import estimate
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.dialect.types import type_of
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster
from burn.passes.fusion.joins import JOINS
from burn.passes.fusion.reads import FREE

LONG = 12
"""Ops of a value that is computed again, at most."""

SMALL = 8
"""What is so many times smaller than the value counts as nothing beside it."""

TYPICAL = 64
"""What a named size counts as where bytes are compared."""

KINDS = ("loop", "reduce")
"""Groups that compute pointwise ops wherever they need them."""


class Way:
    """The ops that a value follows from, in order, and what they read."""

    def __init__(self, choice: Choice, value: ir.Value) -> None:
        self.value, self.bytes = value, _bytes(value)
        self.steps: dict[ir.Operation, Op] = {}
        self.sources: dict[ir.Value, int] = {}  # bytes that are read
        self.stored: dict[ir.Value, int] = {}  # bytes of those that are stored for this alone
        self._walk(choice, value, choice.cluster_of(value))

    def _walk(self, choice: Choice, value: ir.Value, home: Cluster | None) -> None:
        op = op_of(value)
        if op is not None and (op.operation in self.steps or (op.OP_NAME in FREE and choice.local(op))):
            return
        inside = choice.cluster_of(value) is home
        if inside and isinstance(op, Pointwise) and _bytes(value) * SMALL > self.bytes:
            for operand in op.operation.operands:
                self._walk(choice, operand, home)
            self.steps[op.operation] = op
            return
        self.sources[value] = _bytes(choice.source(value))
        if inside and not _is_read_outside(choice, value, home):
            self.stored[value] = _bytes(value)


def repeat(choice: Choice) -> None:
    """Gives every group that reads such a value ops of its own that compute it."""
    added: dict[Cluster, list[Op]] = {}
    anchors: dict[Cluster, Op] = {}
    for op in reversed(choice.ops[:-1]):
        cluster = choice.cluster.get(op.operation)
        if cluster is None or cluster.kind not in KINDS or not isinstance(op, Pointwise):
            continue
        readers = _readers(choice, op.operation.results[0], cluster)
        if not readers:
            continue
        way = Way(choice, op.operation.results[0])
        able = [c for c in readers if c is not None and _can(choice, way, c)]
        if able and len(way.steps) <= LONG and _pays(way, len(readers), able):
            for reader in able:
                anchors.setdefault(reader, reader.members[0])
                added[reader] = [*_move_in(choice, way, reader), *added.get(reader, ())]
    if added:
        before = {id(anchors[reader]): copies for reader, copies in added.items()}
        choice.ops = [o for op in choice.ops for o in (*before.get(id(op), ()), op)]
        choice.position = {op.operation: i for i, op in enumerate(choice.ops)}


def _readers(choice: Choice, value: ir.Value, home: Cluster) -> list[Cluster | None]:
    """The other clusters whose members read a value as it is; None stands for each reader that must find it in memory."""
    found: dict[Cluster | None, None] = {}
    for use in value.uses:
        cluster = choice.cluster.get(use.owner.operation)
        if cluster is not home:
            found[cluster if cluster is not None and cluster.kind in KINDS else None] = None
    return list(found)


def _is_read_outside(choice: Choice, value: ir.Value, home: Cluster | None) -> bool:
    return any(choice.cluster.get(use.owner.operation) is not home for use in value.uses)


def _can(choice: Choice, way: Way, reader: Cluster) -> bool:
    return len(reader.members) + len(way.steps) <= choice.max_ops and all(
        JOINS[reader.kind](choice, op, reader) for op in way.steps.values()
    )


def _pays(way: Way, readers: int, able: list[Cluster]) -> bool:
    """Whether fewer bytes are moved; where all readers are able, the value is not stored either."""
    saved = way.bytes * (len(able) + (len(able) == readers))
    spent = sum(way.stored.values())
    for reader in able:
        has = {v for m in reader.members for v in m.operation.operands}
        spent += sum(size for source, size in way.sources.items() if source not in has)
    return spent < saved


def _move_in(choice: Choice, way: Way, reader: Cluster) -> list[Op]:
    """Copies of the ops in front of the reader's members, which read the last one's result from now on."""
    first = reader.members[0]
    new: dict[ir.Value, ir.Value] = {}
    copies: list[Op] = []
    with first.operation.location, ir.InsertionPoint(first.operation):
        for step in way.steps.values():
            copy = step.operation.clone()
            for i, operand in enumerate(step.operation.operands):
                copy.operands[i] = new.get(operand, operand)
            new[step.operation.results[0]] = copy.operation.results[0]
            made = copy.operation.opview
            assert isinstance(made, Op)
            copies.append(made)
    for member in reader.members:
        if any(operand == way.value for operand in member.operation.operands):
            choice.rewire(member, way.value, new[way.value])
    reader.members = [*copies, *reader.members]
    for copy in copies:
        choice.cluster[copy.operation] = reader
        choice.position[copy.operation] = choice.position[first.operation]
    choice.order.add(reader, {c for s in way.sources if (c := choice.cluster_of(choice.source(s))) is not None})
    return copies


def _bytes(value: ir.Value) -> int:
    type_ = type_of(value)
    return estimate(type_.elements, TYPICAL) * type_.element_bytes
