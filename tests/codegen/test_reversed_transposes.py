"""Transposes of reversed axes (rot90): blocks are transposed in registers, from the last row on."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

TARGETS = [target.name for target in host_targets(features())]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reversed_axes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("shape", [(2, 56, 56), (3, 17, 40), (1, 8, 9), (2, 3, 33), (1, 24, 24)])
def test_rotations(shape: tuple[int, int, int], reversed_axes: tuple[int, ...], target: str) -> None:
    program = Program.create([("x", TensorType("float32", shape))])
    with program.building("node"):
        starts = tuple(d - 1 if axis in reversed_axes else 0 for axis, d in enumerate(shape))
        steps = tuple(-1 if axis in reversed_axes else 1 for axis in range(3))
        y = ops.slice(program.inputs[0], starts=starts, sizes=shape, steps=steps)
        y = ops.transpose(y, permutation=(0, 2, 1))
    program.finish([("y", y)])
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    got = np.asarray(Executable(compile_program(program, Options(target=target)))(x))
    np.testing.assert_array_equal(got, np.flip(x, reversed_axes).swapaxes(1, 2))
