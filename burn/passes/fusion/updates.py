"""Updates: the pointwise ops that compute the next values of a program's state, such as AdamW's of a parameter and its moments.

An update reads its state and a gradient. It would be slow in the epilogue of the gradient's kernel: tensor cores wait for three
loads and three stores of each element. A reduction's second kernel cannot write in place what its first kernel reads. So
updates have kernels of their own, and `foreach.py` joins those of many tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of

MOST_STEPS = 16
"""The most ops on a gradient that are moved to its update."""


def updates_of(block: ir.Block, renews: Mapping[int, int]) -> set[ir.Value]:
    """The results of all ops in updates. renews: maps the number of an output to the input whose next value it is."""
    *ops, end = [o.opview for o in block.operations]
    outputs = {end.operation.operands[number]: block.arguments[i] for number, i in renews.items()}
    inside = _only_read_by(outputs, [op for op in reversed(ops) if isinstance(op, Op)], end.operation)
    state = {argument for value, argument in outputs.items() if value in inside}
    if not state:
        return set()
    position = {op.operation.results[0]: n for n, op in enumerate(ops) if op.operation.results}
    found: set[ir.Value] = set()
    for part in _connected(inside, position):
        found |= _update(part, state, position)
    return found


def _only_read_by(outputs: Mapping[ir.Value, ir.Value], ops: Sequence[Op], end: ir.Operation) -> set[ir.Value]:
    """The results of pointwise ops that only pointwise ops of one shape read on the way to such outputs. ops: the last first."""
    inside: set[ir.Value] = set()
    for op in ops:
        if not isinstance(op, Pointwise) or op.has(Trait.GENERATED):
            continue
        result = op.operation.results[0]
        users = [use.owner.operation for use in result.uses]
        if users and all(_reads_at_own_index(user, result, inside, outputs, end) for user in users):
            inside.add(result)
    return inside


def _reads_at_own_index(
    user: ir.Operation,
    value: ir.Value,
    inside: set[ir.Value],
    outputs: Mapping[ir.Value, ir.Value],
    end: ir.Operation,
) -> bool:
    if user == end:
        return value in outputs and type_of(value).shape == type_of(outputs[value]).shape
    if not user.results:
        return False  # a check, or the end of a region
    return user.results[0] in inside and type_of(user.results[0]).shape == type_of(value).shape


def _connected(inside: set[ir.Value], position: Mapping[ir.Value, int]) -> Iterator[list[ir.Value]]:
    """Values that are computed from each other, in program order."""
    left = set(inside)
    while left:
        todo, part = [next(iter(left))], set[ir.Value]()
        while todo:
            value = todo.pop()
            if value not in left:
                continue
            left.remove(value)
            part.add(value)
            todo += value.owner.operands
            todo += [result for use in value.uses for result in use.owner.operation.results]
        yield sorted(part, key=lambda value: position[value])


def _update(part: Sequence[ir.Value], state: set[ir.Value], position: Mapping[ir.Value, int]) -> set[ir.Value]:
    """Of connected values: those that depend on the state, and others that follow from narrower tensors. An update then reads a
    gradient instead of two functions of it, and a gradient in half precision before it is converted."""
    following: set[ir.Value] = set()
    for value in part:
        if any(x in state or x in following for x in value.owner.operands):
            following.add(value)
    read = {x for value in following for x in _tensors_of(value) if x not in following and x not in state}
    best, moved, cost = set[ir.Value](), set[ir.Value](), _bytes(read)
    for _ in range(MOST_STEPS):
        last = max((x for x in read if x in part), key=lambda x: position[x], default=None)
        if last is None:
            break
        moved = moved | {last}
        read = (read - {last}) | {x for x in _tensors_of(last) if x not in state}
        if _bytes(read) < cost:
            best, cost = moved, _bytes(read)
    return following | best


def _tensors_of(value: ir.Value) -> list[ir.Value]:
    """The operands of a value's op that have its shape, without generated ones."""
    shape = type_of(value).shape
    found = []
    for x in value.owner.operands:
        op = op_of(x)
        if type_of(x).shape == shape and not (op is not None and op.has(Trait.GENERATED)):
            found.append(x)
    return found


def _bytes(values: set[ir.Value]) -> int:
    """Of one element of each."""
    return sum(type_of(value).element_bytes for value in values)
