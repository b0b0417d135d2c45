"""Values that a kernel computes again from what lies in memory anyway, where that moves fewer bytes than to store and read them.

The way back of a normalisation, say, needs its normalised input: three times as large as the input in half precision and two
numbers a row, of which it follows. `repeat` runs when it is known which group each op belongs to.
"""

from __future__ import annotations

from enum import Enum

from burn.dialect.dims import estimate
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.body import EXPENSIVE
from burn.passes.fusion.choice import Choice, is_wider
from burn.passes.fusion.cluster import Cluster
from burn.passes.fusion.joins import JOINS

LONG = 12
"""Ops of a value that is computed again, at most."""

MORE = 2
"""How many times as many ops as usual a group may have with what it computes again."""

SMALL = 8
"""What is so many times smaller than the value counts as nothing beside it."""

ROUNDS = 3
"""How often all values are looked at."""

KINDS = ("loop", "reduce", "contract")
"""Groups that compute pointwise ops wherever they need them; a contraction does so behind its sums."""


class Start(Enum):
    """Where ways begin besides at what no pointwise op of the group makes."""

    NARROWER = 1  # at values of fewer bytes than the one that is wanted, which lie in memory anyway
    LYING = 2  # at such of as many bytes, too
    NARROW = 3  # at values of fewer bytes, which are stored for this where they do not lie in memory


class Way:
    """The ops that a value follows from, in order, and what they read."""

    def __init__(self, choice: Choice, value: ir.Value, start: Start) -> None:
        self.value, self.bytes, self.start = value, _bytes(value), start
        self.steps: dict[ir.Operation, Op] = {}
        self.sources: dict[ir.Value, int] = {}  # bytes that are read
        self.stored: dict[ir.Value, int] = {}  # bytes of those that are stored for this alone
        self._walk(choice, value, choice.cluster_of(value))

    def _walk(self, choice: Choice, value: ir.Value, home: Cluster | None) -> None:
        op = op_of(value)
        if op is not None and (op.operation in self.steps or (op.has(Trait.GENERATED) and choice.local(op))):
            return
        inside = choice.cluster_of(value) is home
        if (
            inside
            and isinstance(op, Pointwise)
            and _bytes(value) * SMALL > self.bytes
            and not self._begins(choice, value)
        ):
            for operand in op.operation.operands:
                self._walk(choice, operand, home)
            self.steps[op.operation] = op
            return
        self.sources[value] = _bytes(choice.source(value))
        if inside and not _is_read_outside(choice, value, home):
            self.stored[value] = _bytes(value)

    def _begins(self, choice: Choice, value: ir.Value) -> bool:
        """Whether a value on the way is read rather than computed."""
        if value == self.value or _bytes(value) > self.bytes - (self.start is not Start.LYING):
            return False
        return self.start is Start.NARROW or _is_read_outside(choice, value, choice.cluster_of(value))

    def spent(self, able: list[Cluster]) -> int:
        """Bytes that are moved where these groups compute the value."""
        spent = sum(self.stored.values())
        for reader in able:
            has = {v for m in reader.members for v in m.operation.operands}
            spent += sum(size for source, size in self.sources.items() if source not in has)
        return spent


def repeat(choice: Choice) -> None:
    """Gives every group that reads such a value ops of its own that compute it. What one group then reads lies in memory for the
    next one, too."""
    for _ in range(ROUNDS):
        if not _repeat(choice):
            break


def _repeat(choice: Choice) -> bool:
    """Once, over all values; whether there was one."""
    added: dict[int, list[Op]] = {}  # by the id of the op in front of which they stand
    for op in reversed(choice.ops[:-1]):
        cluster = choice.cluster.get(op.operation)
        if cluster is None or not isinstance(op, Pointwise):
            continue
        readers = _readers(choice, op.operation.results[0], cluster)
        if not readers:
            continue
        way, able = _best(choice, op.operation.results[0], [r for r in readers if r is not None])
        saved = way.bytes * (
            len(able) + (len(able) == len(readers))
        )  # it is not stored either where all readers are able
        if able and way.spent(able) < saved:
            for reader in able:
                _move_in(choice, way, reader, added)
    if added:
        choice.ops = [o for op in choice.ops for o in _with_copies(op, added)]
        _drop(choice)
        choice.position = {op.operation: i for i, op in enumerate(choice.ops)}
    return bool(added)


def _drop(choice: Choice) -> None:
    """Forgets what nobody needs since others compute what it did: what it read counts no more."""
    kept: list[Op] = []
    for op in reversed(choice.ops):
        cluster = choice.cluster.get(op.operation)
        if cluster is None or not isinstance(op, Pointwise) or any(list(r.uses) for r in op.operation.results):
            kept.append(op)
            continue
        cluster.members.remove(op)
        del choice.cluster[op.operation]
        op.operation.erase()
    choice.ops = kept[::-1]


def _with_copies(op: Op, added: dict[int, list[Op]]) -> list[Op]:
    return [*(o for copy in added.get(id(op), ()) for o in _with_copies(copy, added)), op]


def _readers(choice: Choice, value: ir.Value, home: Cluster) -> list[Cluster | None]:
    """The other clusters whose members read a value as it is; None stands for each reader that must find it in memory."""
    found: dict[Cluster | None, None] = {}
    for use in value.uses:
        cluster = choice.cluster.get(use.owner.operation)
        if cluster is not home:
            able = cluster is not None and cluster.kind in KINDS and _takes(use.owner.opview, cluster)
            found[cluster if able else None] = None
    return list(found)


def _takes(reader: Op, cluster: Cluster) -> bool:
    """Whether a member may read what its group computes: a product's sides lie in memory."""
    return cluster.kind != "contract" or isinstance(reader, Pointwise)


def _is_read_outside(choice: Choice, value: ir.Value, home: Cluster | None) -> bool:
    return any(choice.cluster.get(use.owner.operation) is not home for use in value.uses)


def _best(choice: Choice, value: ir.Value, readers: list[Cluster]) -> tuple[Way, list[Cluster]]:
    """The way to a value that moves the fewest bytes, of those that the most readers can go; and these."""
    ways = [Way(choice, value, start) for start in Start]
    able = [[r for r in readers if _can(choice, way, r)] for way in ways]
    return min(zip(ways, able, strict=True), key=lambda pair: (-len(pair[1]), pair[0].spent(pair[1])))


def _can(choice: Choice, way: Way, reader: Cluster) -> bool:
    fits = len(way.steps) <= LONG and len(reader.members) + len(way.steps) <= MORE * choice.max_ops
    return fits and all(
        JOINS[reader.kind](choice, op, reader) or _stands_alone(choice, op, reader) for op in way.steps.values()
    )


def _stands_alone(choice: Choice, op: Op, reader: Cluster) -> bool:
    """Whether an op is little, computed where its result is repeated along axes: a norm's weight, widened."""
    result = op.operation.results[0]
    cheap = isinstance(op, Pointwise) and op.FUNCTION not in EXPENSIVE
    return (
        choice.preferences.repeat_small
        and cheap
        and reader.kind in ("loop", "reduce")
        and is_wider(reader.space, type_of(result).shape)
        and all(choice.cluster_of(choice.source(v)) is not reader for v in op.operation.operands)
        and all(isinstance(m, Pointwise) for m in reader.members if result in list(m.operation.operands))
    )


def _move_in(choice: Choice, way: Way, reader: Cluster, added: dict[int, list[Op]]) -> None:
    """Copies of the ops in front of the first of the reader's members that reads the last one's result; all read the copy's from
    now on."""
    place = next(i for i, m in enumerate(reader.members) if way.value in list(m.operation.operands))
    first = reader.members[place]
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
    reader.members[place:place] = copies
    added[id(first)] = [*added.get(id(first), ()), *copies]
    for copy in copies:
        choice.cluster[copy.operation] = reader
        choice.position[copy.operation] = choice.position[first.operation]
    choice.order.add(reader, {c for s in way.sources if (c := choice.cluster_of(choice.source(s))) is not None})


def _bytes(value: ir.Value) -> int:
    return estimate(type_of(value).bytes)
