"""Quotients and remainders of 64 bits by a shifted constant.

A shift by the width is poison until a select replaces it by zero, and LLVM must not divide by it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import environment, executable
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes import pipeline
from burn.passes.constants import full
from burn.runtime.host import features

FUNCTIONS = ("div", "floordiv", "mod", "fmod")
SHIFTS = [0, 1, 5, 62, 63, 64, 65, 100, 2, 3, 64]


def program(dtype: str, factor: int) -> Program:
    made = Program.create([("x", TensorType(dtype, (len(SHIFTS),)))])
    with made.building("node"):
        (x,) = made.inputs
        scalar = TensorType(dtype, ())
        shifted = ops.shift_left(full(factor, scalar), x)
        values = [getattr(ops, name)(a, shifted) for name in FUNCTIONS for a in (full(7, scalar), shifted)]
    return made.finish([(f"y{i}", value) for i, value in enumerate(values)])


def expected(dtype: str, factor: int) -> list[list[int]]:
    bits, signed = 64, dtype == "int64"

    def wrapped(n: int) -> int:
        n %= 1 << bits
        return n - (1 << bits) if signed and n >> (bits - 1) else n

    def divided(name: str, a: int, b: int) -> int:
        if b == 0:
            return 0
        truncated = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return {"div": truncated, "floordiv": a // b, "mod": a % b, "fmod": a - truncated * b}[name]

    shifted = [wrapped(factor << n) if n < bits else 0 for n in SHIFTS]
    return [
        [wrapped(divided(name, a, b)) for a, b in zip(operand, shifted, strict=True)]
        for name in FUNCTIONS
        for operand in ([7] * len(SHIFTS), shifted)
    ]


@pytest.mark.parametrize("target", [t.name for t in host_targets(features())])
@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_quotients_by_shifted_constants(dtype: str, target: str) -> None:
    for factor in (1, 65):
        got = executable(program(dtype, factor), Options(target=target))(np.array(SHIFTS, dtype))
        np.testing.assert_array_equal(np.array(got), np.array(expected(dtype, factor), dtype))


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_the_divisor_is_frozen(dtype: str) -> None:
    made, backend = program(dtype, 65), CPU(TARGETS["avx512"])
    pipeline.run(pipeline.parse(backend.pipeline.text), made, environment(backend))
    text = backend.printer.listing(made)
    divisions = re.findall(r"arith\.div[us]i (%\w+), (%\w+) : vector", text)
    frozen = set(re.findall(r"(%\w+) = llvm\.freeze", text))
    assert divisions and frozen
    selects = dict(re.findall(r"(%\w+) = arith\.select %\w+, %\w+, (%\w+) :", text))
    for _, divisor in divisions:
        while divisor in selects:
            divisor = selects[divisor]
        assert divisor in frozen
