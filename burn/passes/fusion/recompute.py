"""Recomputes values in their readers' kernels from tensors already in memory, if that moves fewer bytes than storing
and loading them.

Examples: the backward pass of a normalisation needs the normalised input, three times as large as its sources, the
half-precision input and two numbers per row. A residual sum needs dequantised numbers, four times as large as their bytes.
`repeat` runs when every op has a group.
"""

from __future__ import annotations

from enum import Enum

from burn.dialect.dims import estimate
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of, settled
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.body import EXPENSIVE
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, size_of
from burn.passes.fusion.inlining import is_stored_for
from burn.passes.fusion.joins import JOINS
from burn.passes.fusion.producers import is_wider

LONG = 12
"""The most ops of a recomputed value."""

MORE = 2
"""A group with recomputed ops may have this multiple of `max-ops`."""

SMALL = 8
"""A tensor this many times smaller than the value counts as free."""

ROUNDS = 3
"""The most rounds over all values."""

KINDS = ("loop", "reduce", "contract")
"""Kinds of group that compute pointwise ops wherever they need them; a contraction does so in its epilogue."""

BYTES = ("int8", "uint8")
"""Types of quantised values."""


class Start(Enum):
    """Additional start points of a recomputation, besides values that no pointwise op of the group computes."""

    NARROWER = 1  # values in memory with fewer bytes than the wanted one
    LYING = 2  # values in memory with as many bytes
    NARROW = 3  # values with fewer bytes, which are stored for this if necessary


class Recomputation:
    """The ops that a value depends on, in order, and the values that they read."""

    def __init__(self, choice: Choice, value: ir.Value, start: Start) -> None:
        self.value, self.bytes, self.start = value, _bytes(value), start
        self.steps: dict[ir.Operation, Op] = {}
        self.sources: dict[ir.Value, int] = {}  # bytes read
        self.stored: dict[ir.Value, int] = {}  # bytes of those that are stored only for this
        self._entered = 0
        self._walk(choice, value, choice.cluster_of(value))

    @property
    def is_long(self) -> bool:
        """True if there are more ops than any reader takes; the others were not looked for."""
        return self._entered > LONG

    def _walk(self, choice: Choice, value: ir.Value, home: Cluster | None) -> None:
        if self.is_long:
            return
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
            self._entered += 1
            for operand in op.operation.operands:
                self._walk(choice, operand, home)
            self.steps[op.operation] = op
            return
        self.sources[value] = _bytes(choice.source(value))
        if inside and not _is_read_outside(choice, value, home):
            self.stored[value] = _bytes(value)

    def _begins(self, choice: Choice, value: ir.Value) -> bool:
        """True if the recomputation reads a value instead of computing it."""
        if value == self.value or _bytes(value) > self.bytes - (self.start is not Start.LYING):
            return False
        return self.start is Start.NARROW or _is_read_outside(choice, value, choice.cluster_of(value))

    def spent(self, able: list[Cluster]) -> int:
        """Bytes moved if these groups recompute the value."""
        spent = sum(self.stored.values())
        for reader in able:
            has = {v for m in reader.members for v in m.operation.operands}
            spent += sum(size for source, size in self.sources.items() if source not in has)
        return spent

    def dequantises(self) -> bool:
        """True if cheap functions make the value of bytes, and perhaps of much smaller tensors."""
        cheap = all(isinstance(op, Pointwise) and op.FUNCTION not in EXPENSIVE for op in self.steps.values())
        others = [size for source, size in self.sources.items() if type_of(source).dtype not in BYTES]
        return cheap and len(others) < len(self.sources) and all(size * SMALL <= self.bytes for size in others)


def repeat(choice: Choice) -> bool:
    """Copies the ops of such a value into every group that reads it. A value that one group then loads is in memory for
    the others. Returns True if it changed something."""
    if not choice.preferences.repeat_reads and not _has_bytes(choice):
        return False
    rounds = 0
    while rounds < ROUNDS and _repeat(choice):
        rounds += 1
    return rounds > 0


def _repeat(choice: Choice) -> bool:
    """One round over all values; returns True if it changed something."""
    with settled():  # `insert` erases ops
        added = _moved(choice)
    insert(choice, added)
    return bool(added)


def _moved(choice: Choice) -> dict[int, list[Op]]:
    """Recomputes values in their readers; returns the copies before an op, by its id."""
    added: dict[int, list[Op]] = {}
    for op in reversed(choice.ops[:-1]):
        if not isinstance(op, Pointwise) or (cluster := choice.cluster.get(op.operation)) is None:
            continue
        readers = readers_of(choice, op.operation.results[0], cluster)
        if not any(readers):
            continue
        best = _best(choice, op.operation.results[0], [r for r in readers if r is not None])
        if best is None:
            continue
        recomputation, able = best
        saved = recomputation.bytes * (
            len(able) + (len(able) == len(readers))
        )  # not stored either if all readers can recompute it
        if able and recomputation.spent(able) < saved:
            for reader in able:
                move_in(choice, recomputation, reader, added)
    return added


def insert(choice: Choice, added: dict[int, list[Op]]) -> None:
    """Puts copies of ops in order, and drops what has no reader then. added: the copies before an op, by its id."""
    if added:
        choice.ops = [o for op in choice.ops for o in _with_copies(op, added)]
        _drop(choice)
        choice.position = {op.operation: i for i, op in enumerate(choice.ops)}


def _drop(choice: Choice) -> None:
    """Drops ops without readers after recomputation; their reads no longer count."""
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


def readers_of(choice: Choice, value: ir.Value, home: Cluster) -> list[Cluster | None]:
    """The other clusters whose members read a value directly; None stands for each reader that needs it in memory."""
    found: dict[Cluster | None, None] = {}
    for use in value.uses:
        cluster = choice.cluster.get(use.owner.operation)
        if cluster is not home:
            able = cluster is not None and cluster.kind in KINDS and _takes(use.owner.opview, cluster)
            found[cluster if able else None] = None
    return list(found)


def _takes(reader: Op, cluster: Cluster) -> bool:
    """True if a member may read a value that its group computes; a matmul reads its operands from memory."""
    return cluster.kind != "contract" or isinstance(reader, Pointwise)


def _is_read_outside(choice: Choice, value: ir.Value, home: Cluster | None) -> bool:
    return any(choice.cluster.get(use.owner.operation) is not home for use in value.uses)


def _has_bytes(choice: Choice) -> bool:
    return any(type_of(result).dtype in BYTES for op in choice.ops for result in op.operation.results)


def _best(choice: Choice, value: ir.Value, readers: list[Cluster]) -> tuple[Recomputation, list[Cluster]] | None:
    """The recomputation that moves the fewest bytes, of those open to the most readers; and these readers. None if the target
    prefers none."""
    recomputations = [Recomputation(choice, value, start) for start in Start]
    if not choice.preferences.repeat_reads:
        recomputations = [each for each in recomputations if each.dequantises()]
    if not recomputations:
        return None
    able = [[r for r in readers if can(choice, recomputation, r)] for recomputation in recomputations]
    return min(zip(recomputations, able, strict=True), key=lambda pair: (-len(pair[1]), pair[0].spent(pair[1])))


def can(choice: Choice, recomputation: Recomputation, reader: Cluster) -> bool:
    if recomputation.is_long:
        return False
    steps, size = len(recomputation.steps), sum(map(size_of, reader.members))
    return size + steps <= MORE * choice.max_ops and all(
        (JOINS[reader.kind](choice, op, reader) or _is_small_broadcast(choice, op, reader))
        and not any(is_stored_for(choice, reader, op, operand) for operand in op.operation.operands)
        for op in recomputation.steps.values()
    )


def _is_small_broadcast(choice: Choice, op: Op, reader: Cluster) -> bool:
    """True if an op is small and computed where its result is broadcast: a converted weight of a norm."""
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


def move_in(choice: Choice, recomputation: Recomputation, reader: Cluster, added: dict[int, list[Op]]) -> None:
    """Inserts copies of the ops before the first of the reader's members that reads the value; all members then read
    the copy."""
    at = next(i for i, m in enumerate(reader.members) if recomputation.value in list(m.operation.operands))
    first = reader.members[at]
    new: dict[ir.Value, ir.Value] = {}
    copies: list[Op] = []
    with first.operation.location, ir.InsertionPoint(first.operation):
        for step in recomputation.steps.values():
            copy = step.operation.clone()
            for i, operand in enumerate(step.operation.operands):
                copy.operands[i] = new.get(operand, operand)
            new[step.operation.results[0]] = copy.operation.results[0]
            made = copy.operation.opview
            assert isinstance(made, Op)
            copies.append(made)
    for member in reader.members:
        if any(operand == recomputation.value for operand in member.operation.operands):
            choice.rewire(member, recomputation.value, new[recomputation.value])
    reader.members[at:at] = copies
    added[id(first)] = [*added.get(id(first), ()), *copies]
    for copy in copies:
        choice.cluster[copy.operation] = reader
        choice.position[copy.operation] = choice.position[first.operation]
    choice.order.add(
        reader, {c for s in recomputation.sources if (c := choice.cluster_of(choice.source(s))) is not None}
    )


def _bytes(value: ir.Value) -> int:
    return estimate(type_of(value).bytes)
