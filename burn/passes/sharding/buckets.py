"""Collectives in buckets, begun early and awaited late.

`bucketed` moves each collective behind its operands, which puts those of gradients in the order of the backward pass.
Neighbours whose results are used later become one op. `awaited` puts a `burn.collective_wait` for each result before
the first use of one of them: what lies between computes while the collective sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from burn.dialect import ops
from burn.dialect.collective import COLLECTIVES
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import type_of

SOON = 32
"""A result that is used within so many ops is not kept waiting for larger ones."""

FEW = 1024
"""Bytes of an output that is awaited early."""


@dataclass
class _Bucket:
    """members: ops of one kind, groups and reduction. ready: the position of `last`, the last operand that is computed. used:
    the first use."""

    key: Any
    ready: int
    used: int
    last: ir.Value | None
    members: list[Op] = field(default_factory=list)
    bytes: int = 0


def bucketed(program: Program, most: int) -> int:
    """most: bytes of a bucket. Returns how many collectives there are afterwards."""
    operations = list(program.block.operations)
    views = [operation.opview for operation in operations]
    position = {value: i for i, op in enumerate(operations) for value in op.operation.results}
    first = _first_uses(operations)
    waiting: list[_Bucket] = []
    for view in views:
        if not isinstance(view, COLLECTIVES):
            continue
        operands = list(view.operation.operands)
        if any(isinstance(v.owner, COLLECTIVES) for v in operands):
            continue
        last = max(operands, key=lambda v: position.get(v, -1))
        ready = position.get(last, -1)
        use = min((first.get(v, len(views)) for v in view.operation.results), default=len(views))
        size = sum(map(_bytes, operands))
        soon = use - ready < SOON or use >= len(views) - 1  # an output, such as the loss, that the host reads early
        key = (view.OP_NAME, tuple(sorted((k, str(v)) for k, v in view.attrs.items())), soon)
        waiting.append(_Bucket(key, ready, use, last, [view], size))
    waiting.sort(key=lambda bucket: bucket.ready)
    made: list[_Bucket] = []
    open_: dict[Any, _Bucket] = {}
    for one in waiting:
        into = open_.get(one.key)
        if into is not None and one.ready < min(into.used, one.used) and into.bytes + one.bytes <= most:
            into.members += one.members
            into.ready, into.last = one.ready, one.last
            into.used, into.bytes = min(into.used, one.used), into.bytes + one.bytes
        else:
            open_[one.key] = one
            made.append(one)
    for bucket in made:
        _write(bucket, program)
    return len(made)


def _first_uses(operations: list[ir.OpView]) -> dict[ir.Value, int]:
    """The position of the first op that reads a value, itself or in a region."""
    found: dict[ir.Value, int] = {}

    def visit(operation: Any, number: int) -> None:
        for value in operation.operands:
            found.setdefault(value, number)
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    visit(inner.operation, number)

    for number, operation in enumerate(operations):
        visit(operation.operation, number)
    return found


def _bytes(value: ir.Value) -> int:
    size = type_of(value).bytes
    return size if isinstance(size, int) else 0


def _write(bucket: _Bucket, program: Program) -> None:
    """One op for the bucket, behind its last operand. Operands are no results of other collectives, so they stay where they
    are."""
    operands = [v for op in bucket.members for v in op.operation.operands]
    results = [v for op in bucket.members for v in op.operation.results]
    first, last = bucket.members[0], bucket.members[-1]
    with first.operation.location, ir.InsertionPoint(last.operation):
        made = type(first).create(operands, **first.attrs)
    owner = None if bucket.last is None else bucket.last.owner
    if owner is not None and isinstance(owner, ir.OpView):
        made.move_after(owner.operation)
    else:  # inputs alone
        made.move_before(next(iter(program.block.operations)).operation)
    for old, new in zip(results, made.results, strict=True):
        old.replace_all_uses_with(new)
    for op in bucket.members:
        op.operation.erase()


def awaited(program: Program) -> None:
    """All results of a collective are awaited before the first use of one of them. Operands and results stay until then: the
    device reads and writes all of them."""
    operations = list(program.block.operations)
    first, end = _first_uses(operations), len(operations) - 1
    sent = [i for i, operation in enumerate(operations) if isinstance(operation.opview, COLLECTIVES)]
    for number, i in enumerate(sent):
        op = operations[i].opview
        results = list(op.operation.results)
        at = min(first.get(result, end) for result in results)
        if at == end and min(map(_bytes, results)) <= FEW and number + 1 < len(sent):
            at = sent[number + 1]  # it has long arrived, and the host may read it from there on
        for operand, result in zip(op.operation.operands, results, strict=True):
            with op.operation.location, ir.InsertionPoint(operations[at].operation):
                made = ops.collective_wait(result, [operand])
            for use in [use for use in result.uses if use.owner.operation != made.owner.operation]:
                use.owner.operation.operands[use.operand_number] = made
