"""Indices and elements that all lanes share are loaded before the vectorised loop, and vectors are as long as without them."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu import loops
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import RunError
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from burn.runtime.host import features

PASSES = "fuse,release"
HOSTS = [target.name for target in host_targets(features())]


def weighted(rows: int, width: int, count: int, named: bool = False) -> Program:
    """x[i] * w + x[j] for rows of x, indices i and j [count], and weights w [count, 1]."""
    columns = symbol("width") if named else width
    types = [
        TensorType("float32", (rows, columns)),
        *[TensorType("int64", (count,))] * 2,
        TensorType("float32", (count, 1)),
    ]
    program = Program.create(list(zip("xijw", types, strict=True)))
    with program.building("node"):
        x, i, j, w = program.inputs
        y = ops.add(ops.mul(ops.gather(x, i, axis=0), w), ops.gather(x, j, axis=0))
    return program.finish([("y", y)])


def text_of(program: Program, target: str) -> str:
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS[target]))
    assert isinstance(call.kernel, LoopKernel)
    return loops.emit(call.kernel, loops.Schedule.of(call.kernel, TARGETS[target]), TARGETS[target], [])


@pytest.mark.parametrize(("target", "lanes"), [("avx512", 16), ("avx2", 8), ("neon", 4)])
def test_one_load_for_a_row(target: str, lanes: int) -> None:
    """The int64 indices are no vectors: those are of float32. Both indices and the weight are outside the loop over vectors."""
    before, _, loop = text_of(weighted(7, 1024, 5), target).rpartition("scf.for")
    assert loop.count(f"-> vector<{lanes}xf32>") == 2 and "store" in loop
    assert "-> i64" not in loop and "-> f32" not in loop and "burn_rt_kernel_fail" not in loop
    assert before.count("burn_rt_kernel_fail") == 2 and before.count("-> f32") == 1


@pytest.mark.covering(of=lambda named, target: (named, target))
@pytest.mark.parametrize("target", HOSTS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 0, 2), (7, 5, 0), (7, 16, 9), (5, 67, 13), (4, 4099, 3)])
def test_values(shape: tuple[int, int, int], named: bool, target: str) -> None:
    rows, width, count = shape
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((rows, width)).astype("f4"), rng.standard_normal((count, 1)).astype("f4")
    i, j = rng.integers(-rows, rows, (2, count))
    run = Executable(compile_program(weighted(*shape, named), Options(target=target, passes=PASSES)))
    np.testing.assert_allclose(run(x, i, j, w), x[i] * w + x[j], rtol=1e-6, atol=1e-6)


def test_index_out_of_range() -> None:
    """It is reported once for a row. In a row without elements nothing is read."""
    run = Executable(compile_program(weighted(7, 20, 2), Options(passes=PASSES)))
    i, j, w = np.array([0, 1]), np.array([6, 7]), np.ones((2, 1), "f4")
    with pytest.raises(RunError, match="index 7 is out of range"):
        run(np.ones((7, 20), "f4"), i, j, w)
    empty = Executable(compile_program(weighted(7, 0, 2), Options(passes=PASSES)))
    assert empty(np.ones((7, 0), "f4"), i, j, w).shape == (2, 0)
