"""Ops that look at values while a program runs (`burn/dialect/debug.py`)."""

from __future__ import annotations

import math

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.reference.machine import Machine
from burn.codegen.reference.operators import runs
from burn.dialect.op import Op, full_name
from burn.dialect.types import type_of
from burn.runtime import debugging
from burn.runtime.abi import Status
from burn.runtime.dtypes import CODES


def _call(machine: Machine, op: Op, function: int, text: str) -> None:
    """An exception of the function ends the run."""
    tensors = [
        (CODES.index(type_of(value).dtype), array.shape, array.tobytes())
        for value in op.values
        for array in [machine.read(value)]
    ]
    debugging.called(function, text.encode(), tensors)


@runs("debug_print")
def _debug_print(machine: Machine, op: Op) -> None:
    _call(machine, op, debugging.PRINT, op.text)


@runs("debug_call")
def _debug_call(machine: Machine, op: Op) -> None:
    _call(machine, op, op.function, "")


@runs("check_finite")
def _check_finite(machine: Machine, op: Op) -> None:
    arrays = [machine.read(value) for value in op.values]
    found = next((i for i in (_odd(array, op.infinite) for array in arrays[: op.made]) if i is not None), None)
    if found is not None and all(_odd(array, op.infinite) is None for array in arrays[op.made :]):
        failed(Status.NOT_FINITE, full_name(op), found)


def _odd(array: np.ndarray, infinite: bool) -> int | None:
    """The index of the first NaN, or with `infinite` of the first infinity or NaN."""
    for index, element in enumerate(array.reshape(-1)):
        number = float(element)
        if math.isnan(number) or (infinite and math.isinf(number)):
            return index
    return None
