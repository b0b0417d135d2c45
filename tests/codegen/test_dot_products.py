"""Matmuls of few rows by a transposed matrix that is an input: dot products along the depth of both operands."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.matmul.dot_products import Schedule
from burn.codegen.cpu.target import TARGETS
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import ContractionKernel
from burn.kernels.builders import kernels
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from tests.codegen.cpus import FLOAT_TARGETS


def matmul(rows: Dim, depth: Dim, columns: Dim, dtype: str = "float32", batch: tuple[int, ...] = ()) -> Program:
    """relu(x @ y.mT + bias) of three inputs."""
    program = Program.create(
        [
            ("x", TensorType(dtype, (*batch, rows, depth))),
            ("y", TensorType(dtype, (*batch, columns, depth))),
            ("bias", TensorType(dtype, (columns,))),
        ]
    )
    x, y, bias = program.inputs
    rank = len(batch)
    axes = tuple(range(rank))
    with program.building():
        z = ops.dot_general(x, y, lhs_batch=axes, rhs_batch=axes, lhs_contract=(rank + 1,), rhs_contract=(rank + 1,))
        z = ops.relu(ops.add(z, bias))
    return program.finish([("z", z)])


def contraction(rows: int, dtype: str = "float32") -> ContractionKernel:
    with context():
        program = matmul(rows, 100, 64, dtype)
        pipeline.run(pipeline.parse("decompose,fuse,release"), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS["avx2"]))
    assert isinstance(call.kernel, ContractionKernel)
    return call.kernel


def is_right(run: Executable, rows: int, depth: int, columns: int, dtype: str, batch: tuple[int, ...] = ()) -> None:
    draws = np.random.default_rng(depth)
    x, y = (draws.standard_normal((*batch, n, depth)).astype(dtype) for n in (rows, columns))
    bias = draws.standard_normal(columns).astype(dtype)
    want = np.maximum(x.astype("f8") @ np.swapaxes(y, -1, -2).astype("f8") + bias, 0)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(run(x, y, bias), want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize(
    ("rows", "width", "tile", "split"), [(1, 8, 1, 1), (2, 4, 2, 1), (4, 4, 2, 1), (5, 4, 3, 1), (48, 4, 3, 1)]
)
def test_schedules_beside_sixteen_registers(rows: int, width: int, tile: int, split: int) -> None:
    found = Schedule.of(contraction(rows), TARGETS["avx2"])
    assert found == Schedule(width, tile, 8, split, rows)


def test_other_matmuls_are_transposed_first() -> None:
    target = TARGETS["avx2"]
    assert Schedule.of(contraction(49), target) is None
    assert Schedule.of(contraction(8, "bfloat16"), target) is None
    assert Schedule.of(contraction(8), TARGETS["cortex-m4"]) is None


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("rows", [1, 2, 5, 48, 49])
@pytest.mark.parametrize("columns", [1, 3, 8, 61])
@pytest.mark.parametrize("depth", [1, 7, 64, 203])
def test_numbers(depth: int, columns: int, rows: int, batch: tuple[int, ...], dtype: str, target: str) -> None:
    run = Executable(compile_program(matmul(rows, depth, columns, dtype, batch), Options(target=target)))
    is_right(run, rows, depth, columns, dtype, batch)


def test_rows_of_several_loops() -> None:
    """Queries of several heads by the keys of one: rows and their results are strided."""
    draws = np.random.default_rng(0)
    a, b = draws.standard_normal((2, 3, 5, 37)), draws.standard_normal((2, 1, 11, 37))
    got = burn.jit(lambda a, b: a @ b.mT)(burn.tensor(a), burn.tensor(b)).numpy()
    np.testing.assert_allclose(got, a @ np.swapaxes(b, -1, -2), rtol=1e-11, atol=1e-11)


def test_sizes_of_a_run() -> None:
    """Depth and columns are known only at run time."""
    run = Executable(compile_program(matmul(3, symbol("k"), symbol("n")), Options()))
    for depth, columns in ((8, 4), (13, 5), (100, 33), (5, 1)):
        is_right(run, 3, depth, columns, "float32")
