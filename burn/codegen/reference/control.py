"""`burn.if` and `burn.loop`."""

from __future__ import annotations

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.reference.machine import Machine
from burn.codegen.reference.operators import runs
from burn.dialect.control import If, Loop, yielded
from burn.dialect.mlir import ir
from burn.dialect.op import full_name
from burn.dialect.types import type_of
from burn.runtime.abi import Status


@runs("if", computes=False)
def _if(machine: Machine, op: If) -> None:
    region = op.operation.regions[0 if machine.flag(op.condition) else 1]
    machine.block(region.blocks[0])
    machine.give(op, *(machine.read(value) for value in yielded(region)))


@runs("loop", computes=False)
def _loop(machine: Machine, op: Loop) -> None:
    region = op.operation.regions[0]
    body = region.blocks[0]
    iteration, condition, *arguments = body.arguments
    results = list(op.operation.results)
    carried = [machine.read(value) for value in op.args[2]]
    stacks: list[list[np.ndarray]] = [[] for _ in results[len(carried) :]]
    go_on = op.condition is None or machine.flag(op.condition)
    limit, done = _limit(machine, op, results[len(carried) :]), 0
    while go_on and (limit is None or done < limit):
        machine.watch()
        machine.set(iteration, np.array(done, np.int64))
        machine.set(condition, np.array(go_on))
        for argument, array in zip(arguments, carried, strict=True):
            machine.set(argument, array)
        machine.block(body)
        following, *given = (machine.read(value) for value in yielded(region))
        go_on, carried = bool(following), given[: len(carried)]
        for stack, piece in zip(stacks, given[len(carried) :], strict=True):
            _stack(op, stack, piece)
        done += 1
    for result, stack in zip(results[len(carried) :], stacks, strict=True):
        carried = [*carried, _joined(machine, op, result, stack, done)]
    machine.give(op, *carried)


def _limit(machine: Machine, op: Loop, stacked: list[ir.Value]) -> int | None:
    """The trip count. It is the length of a stacked result where the type has that: nothing is written behind its end."""
    for result in stacked:
        length = type_of(result).shape[0]
        if not machine.defines(op, length):
            return machine.dim(length)
    return None if op.trips is None else int(machine.read(op.trips))


def _stack(op: Loop, stack: list[np.ndarray], piece: np.ndarray) -> None:
    """Adds a slice. Slices must agree in their sizes."""
    for have, size in zip(stack[0].shape if stack else piece.shape, piece.shape, strict=True):
        if have != size:
            failed(Status.SHAPE_MISMATCH, full_name(op), size)
    stack.append(piece)


def _joined(machine: Machine, op: Loop, result: ir.Value, stack: list[np.ndarray], count: int) -> np.ndarray:
    """The slices one after another. Sizes that only iterations define are 0 without any."""
    type_ = type_of(result)
    inner = stack[0].shape if stack else tuple(0 if machine.defines(op, d) else machine.dim(d) for d in type_.shape[1:])
    made = machine.allocate((count, *inner), type_.dtype)
    for number, piece in enumerate(stack):
        made[number] = piece
    return made
