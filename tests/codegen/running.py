"""Builds a program from a function over values, compiles it and runs it on arrays, for tests of the code generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burn.compiler import executable
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.device import Device
from burn.runtime.executable import Executable


def compiled(
    types: Sequence[TensorType], build: Callable[..., Any], node: str = "node", device: str = "cpu"
) -> Executable:
    """`build(*inputs)` returns the outputs: a value or a list of them."""
    program = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with program.building(node):
        made = build(*program.inputs)
    outputs = [made] if isinstance(made, ir.Value) else list(made)
    finished = program.finish([(f"y{i}", v) for i, v in enumerate(outputs)])
    return executable(finished, Options(device=Device(device)))


def call(function: Executable, *arrays: np.ndarray | np.generic) -> list[np.ndarray]:
    results = function(*arrays)
    return list(results) if isinstance(results, tuple) else [results]


def same(got: Sequence[np.ndarray], want: Sequence[Any]) -> None:
    """Shapes, types and every element are equal; NaN equals NaN."""
    assert len(got) == len(want)
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        b = np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, (
            f"result {number} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        )
        equal = (a == b) | ((a != a) & (b != b))
        assert np.all(equal), f"result {number}:\n{a}\nis not\n{b}"
