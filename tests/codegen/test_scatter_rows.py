"""Scatters whose updates are rows: a row is a loop over vectors, and updates of one row stay in order."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.lanes import choose_lane
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import find, host_targets
from burn.compiler import compile_program, environment
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
TARGETS = [target.name for target in host_targets(features())]
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum}


def scattered(
    rows: int, count: int, inner: tuple[int, ...], reduction: str, dtype: str = "float32", named: bool = False
) -> Program:
    """x [rows, inner..] with updates [count, inner..] at indices [count, 1]."""
    sizes = tuple(symbol(f"d{n}") for n in range(len(inner))) if named else inner
    program = Program.create(
        [
            ("x", TensorType(dtype, (rows, *sizes))),
            ("i", TensorType("int64", (count, 1))),
            ("u", TensorType(dtype, (count, *sizes))),
        ]
    )
    with program.building("node"):
        y = ops.scatter_nd(*program.inputs, reduction=reduction)
    return program.finish([("y", y)])


def expected(x: np.ndarray, i: np.ndarray, u: np.ndarray, reduction: str) -> np.ndarray:
    y = x.copy()
    for index, update in zip(i[:, 0], u, strict=True):
        y[index] = UFUNCS[reduction](y[index], update) if reduction in UFUNCS else update
    return y


@pytest.mark.covering(of=lambda reduction, named, dtype, target: (reduction, named, dtype, target))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
@pytest.mark.parametrize("inner", [(1,), (0,), (3,), (8,), (65,), (2, 9), (4, 1), (1, 17)])
def test_rows(inner: tuple[int, ...], reduction: str, named: bool, dtype: str, target: str) -> None:
    generator = np.random.default_rng(5)
    x, u = (generator.integers(-4, 5, (n, *inner)).astype(dtype) for n in (7, 40))
    if dtype == "float32":
        x, u = (a + generator.standard_normal(a.shape, np.float32) / 8 for a in (x, u))
    i = generator.integers(0, 7, (40, 1))
    program = scattered(7, 40, inner, reduction, dtype, named)
    got = np.asarray(Executable(compile_program(program, Options(target=target, passes=PASSES)))(x, i, u))
    if dtype == "float16" and reduction == "mul":  # numpy rounds in another way
        np.testing.assert_allclose(got, expected(x, i, u, reduction), rtol=1e-2)
    else:
        np.testing.assert_array_equal(got, expected(x, i, u, reduction))


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_out_of_range_is_an_error(target: str) -> None:
    run = Executable(compile_program(scattered(7, 4, (33,), "add"), Options(target=target, passes=PASSES)))
    x, u = np.zeros((7, 33), np.float32), np.ones((4, 33), np.float32)
    with pytest.raises(RunError, match="7"):
        run(x, np.array([[0], [1], [7], [2]]), u)


def test_elements_of_an_update_are_lanes() -> None:
    program = scattered(100, 500, (64,), "add")
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        _, call = kernels(group, preferences_of(find("avx2")))
    assert isinstance(call.kernel, LoopKernel)
    lane = choose_lane(call.kernel, find("avx2"))
    assert lane is not None
    assert lane.name == "u1"


def test_updates_of_single_elements_have_no_lanes() -> None:
    program = Program.create(
        [("x", TensorType("float32", (4, 9))), ("i", TensorType("int64", (4, 9))), ("u", TensorType("float32", (4, 9)))]
    )
    with program.building("node"):
        y = ops.scatter_elements(*program.inputs, axis=1, reduction="add")
    program.finish([("y", y)])
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        _, call = kernels(group, preferences_of(find("avx2")))
    assert isinstance(call.kernel, LoopKernel)
    assert choose_lane(call.kernel, find("avx2")) is None


def test_what_a_scatter_reads_is_computed_in_it() -> None:
    """Updates and indices of cheap functions need no memory, unless x is overwritten: they may read it."""
    program = Program.create([("x", TensorType("float32", (9, 33))), ("i", TensorType("int64", (9,)))])
    with program.building("node"):
        x, i = program.inputs
        index = ops.reshape(ops.from_start(i), shape=(9, 1))
        y = ops.scatter_nd(x, index, ops.add(x, x), reduction="add")
    program.finish([("y", y)])
    program.given_up = (0,)
    run = Executable(compile_program(program, Options()), donate=["x"])
    x = np.random.default_rng(2).standard_normal((9, 33)).astype(np.float32)
    i = np.array([1, 2, 3, 4, 5, 6, 7, 8, 0])
    want = expected(x, i[:, None], x + x, "add")
    np.testing.assert_allclose(np.asarray(run(x.copy(), i)), want, rtol=1e-6)
    for wrong in (-1, 9):
        with pytest.raises(RunError, match=str(wrong)):
            run(x.copy(), np.array([1, 2, 3, wrong, 5, 6, 7, 8, 0]))
    with context():
        program = scattered_from_start()
        pipeline.run(pipeline.parse("decompose,simplify,fuse,release"), program, environment())
        groups = [o.opview for o in program.block.operations if isinstance(o.opview, Group)]
    assert [group.kind for group in groups] == ["scatter"]


def scattered_from_start() -> Program:
    program = Program.create([("x", TensorType("float32", (9,))), ("i", TensorType("int64", (40,)))])
    with program.building("node"):
        x, i = program.inputs
        index = ops.reshape(ops.from_start(i), shape=(40, 1))
        y = ops.scatter_nd(x, index, ops.cast(i, dtype="float32"), reduction="add")
    return program.finish([("y", y)])
