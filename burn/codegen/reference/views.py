"""Ops of a fused program that compute nothing: constants, reshapes, sizes read from data, conditions on sizes."""

from __future__ import annotations

import operator

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.reference.machine import Machine
from burn.codegen.reference.operators import runs
from burn.dialect.constants import constant_array
from burn.dialect.op import Op, full_name
from burn.dialect.types import numpy_dtype, type_of
from burn.dialect.weights import WeightStore
from burn.runtime.abi import Status

RELATIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


@runs("return", "yield", computes=False)
def _end(machine: Machine, op: Op) -> None:
    """The op around the block, or the caller, reads the operands."""


@runs("weight", computes=False)
def _weight(machine: Machine, op: Op) -> None:
    machine.give(op, machine.constant(op.key))


@runs("constant", computes=False)
def _constant(machine: Machine, op: Op) -> None:
    machine.give(op, np.asarray(constant_array(op.operation.results[0], WeightStore())))


@runs("reshape", computes=False)
def _reshape(machine: Machine, op: Op) -> None:
    machine.check_sizes(op)
    result = op.operation.results[0]
    machine.give(op, machine.read(op.x).reshape(machine.shape(result)))


@runs("view_as_real", "view_as_complex", computes=False)
def _reinterpret(machine: Machine, op: Op) -> None:
    """The same memory as elements of the result's type."""
    result = op.operation.results[0]
    given = np.ascontiguousarray(machine.read(op.operation.operands[0]))
    machine.give(op, given.view(numpy_dtype(type_of(result).dtype)).reshape(machine.shape(result)))


@runs("read_dim", computes=False)
def _read_dim(machine: Machine, op: Op) -> None:
    value = int(machine.read(op.x).reshape(-1)[op.position])
    if value < op.minimum:
        failed(Status.NEGATIVE_SIZE, full_name(op), value)
    machine.sizes[op.symbol] = value


@runs("check_size", computes=False)
def _check_size(machine: Machine, op: Op) -> None:
    size, bound = machine.dim(op.size), machine.dim(op.bound)
    if not RELATIONS[op.relation](size, bound):
        condition = f"{op.size} {op.relation} {op.bound}" + (f" ({op.says})" if op.says else "")
        failed(Status.CHECK_FAILED, condition, size)
