"""The order of ops around collectives: operands early, uses late, so that what lies between computes while collectives send.

- `hoisted`: cheap ops that make a collective's operand, such as the cast of a gradient, stand behind their own operands. Those
  that read its result stand before their user.
- `updates_last`: behind the last collective, ops that wait for an earlier one come first. The update of a parameter whose
  gradient was sent early does not wait for the last gradient.
"""

from __future__ import annotations

from typing import TypeAlias

from burn.dialect.collective import COLLECTIVES, CollectiveWait
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import used_once
from burn.dialect.traits import Trait
from burn.passes.fusion.choice import is_ordered

_Row: TypeAlias = "tuple[int, int, ir.Operation]"
"""The number of the last collective that an op waits for, its position, and the op."""

CHEAP = 3
"""The most operands of an op that moves."""


def _moves(op: object) -> bool:
    if not isinstance(op, Op) or len(op.operation.operands) > CHEAP or len(op.operation.results) != 1:
        return False
    return isinstance(op, Pointwise) or op.has(Trait.VIEW)


def hoisted(program: Program) -> None:
    """Moves ops before and behind collectives. The order of collectives among each other stays."""
    views = [operation.opview for operation in program.block.operations]
    position: dict[ir.Value, float] = {v: float(i) for i, op in enumerate(views) for v in op.operation.results}
    before = _makers(views)
    for op in views:
        if op.operation.results and op.operation.results[0] in before:
            last = max((v for v in op.operation.operands if v in position), key=lambda v: position[v], default=None)
            if last is not None and isinstance(last.owner, ir.OpView):
                op.operation.move_after(last.owner.operation)
                position[op.operation.results[0]] = position[last] + 1e-6
    block = program.block
    behind: set[ir.Value] = {v for op in views if isinstance(op, COLLECTIVES) for v in op.operation.results}
    for op in views:
        if _moves(op) and any(v in behind for v in op.operation.operands):
            behind.add(op.operation.results[0])
    end = program.terminator  # counting through the block finds it
    for op in reversed(views):
        if not _moves(op):
            continue
        (result,) = op.operation.results
        if result in behind and used_once(result) and _only_reads(op, behind):
            user = next(iter(result.uses)).owner.operation
            if user.block == block and user != end:  # the host may read an output early
                op.operation.move_before(user)


def _only_reads(op: Op, behind: set[ir.Value]) -> bool:
    """True if all operands are results of collectives, or scalars: then sinking the op keeps no other tensor alive."""
    return all(v in behind or not ir.RankedTensorType(v.type).rank for v in op.operation.operands)


def _makers(views: list[ir.OpView]) -> set[ir.Value]:
    """The results of cheap ops from which collectives' operands are computed, by cheap ops alone."""
    found: set[ir.Value] = set()
    todo = [v for op in views if isinstance(op, COLLECTIVES) for v in op.operation.operands]
    while todo:
        value = todo.pop()
        if value in found or not _moves(value.owner):
            continue
        found.add(value)
        todo += value.owner.operation.operands
    return found


def updates_last(program: Program) -> None:
    """Sorts the ops behind the last collective by the collectives that they wait for. Equal ones keep their order, as do ops
    with effects."""
    views = [operation.opview for operation in program.block.operations]
    last = max((i for i, op in enumerate(views) if isinstance(op, COLLECTIVES)), default=-1)
    if last < 0:
        return
    sent = [op for op in views if isinstance(op, COLLECTIVES)]
    number = {v: i for i, op in enumerate(sent) for v in op.operation.results}
    waits: dict[ir.Value, int] = {}
    rows: list[_Row] = []
    shown = -1  # the key of the last op with effects
    for i, op in enumerate(views[:-1]):
        key = max((waits.get(v, -1) for v in _read(op.operation)), default=-1)
        if isinstance(op, CollectiveWait):
            key = max(key, number.get(op.x, -1))
        elif i > last and _has_effects(op):
            key = shown = max(key, shown)
        waits.update(dict.fromkeys(op.operation.results, key))
        if i > last:
            rows.append((key, i, op.operation))
    rows, end = _with_users(rows), program.terminator
    for _, _, operation in sorted(rows, key=lambda row: row[:2]):
        operation.move_before(end)


def _has_effects(op: object) -> bool:
    """True for ops whose order stays. A wait may come before another one."""
    return isinstance(op, Op) and is_ordered(op) and not isinstance(op, CollectiveWait)


def _with_users(rows: list[_Row]) -> list[_Row]:
    """Ops that wait for nothing stand with the first of their users, with which they become one kernel."""
    keys: dict[ir.Value, int] = {}
    found = []
    for key, i, operation in reversed(rows):
        if key < 0 and not _has_effects(operation.opview):
            key = min((keys[v] for v in operation.results if v in keys), default=key)
        for value in _read(operation):
            keys[value] = min(key, keys.get(value, key))
        found.append((key, i, operation))
    return found


def _read(operation: ir.Operation) -> list[ir.Value]:
    """The values that an op and its regions read."""
    found = list(operation.operands)
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += _read(inner.operation)
    return found
