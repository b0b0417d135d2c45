"""Copies of short rows: in the order in which they are read, for any range of elements per thread."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.lanes import as_read
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import find, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from burn.runtime.host import features

PASSES = "fuse,release"
TARGETS = [target.name for target in host_targets(features())]


def panels(rows: int, count: int, width: int, named: bool = False) -> Program:
    """[rows, count * width] becomes [count, rows, width]."""
    length = symbol("rows") if named else rows
    program = Program.create([("x", TensorType("float32", (length, count * width)))])
    with program.building("node"):
        split = ops.reshape(program.inputs[0], shape=(length, count, width))
        turned = ops.transpose(split, permutation=(1, 0, 2))
    return program.finish([("y", turned)])


@pytest.mark.covering(of=lambda named, target: (named, target))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (0, 3, 32), (7, 5, 32), (300, 3, 17), (513, 9, 32), (129, 2, 70), (31, 64, 3)]
)
def test_panels(shape: tuple[int, int, int], named: bool, target: str) -> None:
    rows, count, width = shape
    x = np.random.default_rng(1).standard_normal((rows, count * width)).astype(np.float32)
    got = Executable(compile_program(panels(*shape, named), Options(target=target, passes=PASSES)))(x)
    np.testing.assert_array_equal(got, x.reshape(shape).swapaxes(0, 1))


def test_what_is_read_is_gone_through_in_order() -> None:
    program = panels(513, 9, 32)
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(find("avx2")))
    assert isinstance(call.kernel, LoopKernel)
    assert [v.extent for v in call.kernel.parallel] == [9, 513, 32]
    assert [v.extent for v in as_read(call.kernel).parallel] == [513, 9, 32]
