"""The programs of a mesh's devices, run together in one process: each op by numpy, collectives between the devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from burn.dialect.collective import COLLECTIVES
from burn.dialect.mlir import context
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import numpy_dtype, type_of
from tests.importers.reference import Array, Machine

REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.fmax, "min": np.fmin}
"""As NCCL has them: the last two ignore NaN."""


class Differ(AssertionError):
    """The devices do not run the same collectives. With real ones this hangs, or mixes tensors."""


@dataclass
class _Device:
    """todo: the ops that are left, the next one last."""

    machine: Machine
    todo: list[Any]
    results: list[Array] | None = None
    unread: set[Any] = field(default_factory=set)

    def go_on(self) -> Op | None:
        """Computes up to the next collective, which it returns; None at the end. Raises AssertionError if a result of a
        collective is read before it is awaited."""
        while self.todo:
            op = self.todo.pop()
            if isinstance(op, COLLECTIVES):
                self._check(op)
                return op
            if op.OP_NAME == "collective_wait":
                self.unread.discard(op.x)
                self.machine.values[op.operation.results[0]] = self.machine.values[op.x]
                continue
            self._check(op)
            if op.OP_NAME == "return":
                self.results = [self.machine.values[value] for value in op.operation.operands]
                return None
            found = self.machine.apply(op)
            self.machine.values.update(zip(op.operation.results, map(_typed, found, op.operation.results), strict=True))
        return None

    def _check(self, op: Op) -> None:
        assert not self.unread.intersection(op.operation.operands), f"{op} reads what is not awaited"


def _typed(array: Array, value: Any) -> Array:
    type_ = type_of(value)
    made = np.asarray(array).astype(numpy_dtype(type_.dtype), copy=False)
    assert made.shape == type_.shape, f"{type_} has the shape {made.shape}"
    return made


def described(op: Op) -> str:
    """The facts of a collective that its devices must have alike."""
    return f"{op.OP_NAME} {op.attrs} {[str(value.type) for value in op.operation.operands]}"


def run(programs: Sequence[Program], inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each device. Raises Differ."""
    with context(), np.errstate(all="ignore"):
        devices = []
        for program, arrays in zip(programs, inputs, strict=True):
            machine = Machine(program)
            machine.values.update(zip(program.inputs, arrays, strict=True))
            devices.append(_Device(machine, [operation.opview for operation in program.block.operations][::-1]))
        while True:
            ops = [device.go_on() for device in devices]
            texts = {None if op is None else described(op) for op in ops}
            if len(texts) > 1:
                raise Differ("\n".join(sorted(map(str, texts))))
            if ops[0] is None:
                return [device.results or [] for device in devices]
            _exchange(devices, [op for op in ops if op is not None])


def _exchange(devices: Sequence[_Device], ops: Sequence[Any]) -> None:
    """One collective of all devices."""
    op: Any = ops[0]
    made = []
    for rank in range(len(devices)):
        at = op.groups.index(rank)
        group = op.groups[at // op.size * op.size :][: op.size]
        sent = [[devices[r].machine.values[v] for v in ops[r].operation.operands] for r in group]
        made.append([_result(op, at % op.size, parts) for parts in zip(*sent, strict=True)])
    for device, own, arrays in zip(devices, ops, made, strict=True):
        results = list(own.operation.results)
        device.machine.values.update(zip(results, arrays, strict=True))
        device.unread.update(results)


def _result(op: Any, position: int, parts: Sequence[Array]) -> Array:
    if op.OP_NAME == "all_gather":
        return np.concatenate(parts)
    if op.OP_NAME == "collective_broadcast":
        return parts[op.root]
    whole = reduce(REDUCTIONS[op.reduction], parts)
    return whole if op.OP_NAME == "all_reduce" else np.split(whole, op.size)[position]
