"""Cumulative reductions: several rows together, with results in registers; each element as a loop over its row gives it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.loops import Schedule
from burn.codegen.cpu.scans import Scan
from burn.codegen.cpu.target import find, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import Expr, substitute, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.kernels.rewrite import collapse
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from burn.runtime.host import features

PASSES = "fuse,release"
TARGETS = [target.name for target in host_targets(features())]
UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def scanned(
    shape: tuple[int, ...], axis: int, kind: str = "sum", dtype: str = "float32", named: bool = False, **options: bool
) -> Program:
    sizes = tuple(symbol(f"d{n}") for n in range(len(shape))) if named else shape
    program = Program.create([("x", TensorType(dtype, sizes))])
    with program.building("node"):
        y = ops.cumulative(program.inputs[0], kind=kind, axis=axis, **options)
    return program.finish([("y", y)])


def expected(x: np.ndarray, axis: int, kind: str = "sum", exclusive: bool = False, reverse: bool = False) -> np.ndarray:
    """In the order of the axis, which numpy's accumulate also has."""
    x = np.flip(x, axis) if reverse else x
    y = UFUNCS[kind].accumulate(x, axis=axis, dtype=x.dtype)
    if exclusive:
        y = np.roll(y, 1, axis)
        y[(slice(None),) * axis + (slice(0, 1),)] = {"sum": 0, "prod": 1}[kind]
    return np.flip(y, axis) if reverse else y


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    generator = np.random.default_rng(3)
    if dtype.startswith("float"):
        return generator.uniform(0.5, 1.5, shape).astype(dtype) * generator.choice([-1, 1], shape).astype(dtype)
    return generator.integers(-3, 4, shape).astype(dtype)


def run(program: Program, target: str, x: np.ndarray) -> np.ndarray:
    return np.asarray(Executable(compile_program(program, Options(target=target, passes=PASSES)))(x))


SHAPES = [
    ((512, 64), 1), ((13, 37), 1), ((1, 100), 1), ((2, 5), 1), ((9, 1), 1), ((5, 0), 1), ((0, 5), 1), ((17,), 0),
    ((3, 11, 7), 1), ((3, 7, 33), 2), ((33, 3), 0), ((8, 8), 1), ((16, 130), 1), ((4, 1, 19), 2),
]  # fmt: skip


@pytest.mark.covering(of=lambda kind, reverse, named, target: (kind, reverse, named, target))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_inclusive(
    shape: tuple[int, ...], axis: int, kind: str, reverse: bool, named: bool, target: str
) -> None:  # fmt: skip
    x = drawn(shape, "float32")
    got = run(scanned(shape, axis, kind, named=named, reverse=reverse), target, x)
    np.testing.assert_array_equal(got, expected(x, axis, kind, reverse=reverse))


@pytest.mark.covering(of=lambda reverse, dtype, target: (reverse, dtype, target))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_exclusive(shape: tuple[int, ...], axis: int, reverse: bool, dtype: str, target: str) -> None:
    x = drawn(shape, dtype)
    got = run(scanned(shape, axis, "sum", dtype, exclusive=True, reverse=reverse), target, x)
    np.testing.assert_array_equal(got, expected(x, axis, "sum", exclusive=True, reverse=reverse))


@pytest.mark.parametrize("target", TARGETS)
def test_first_elements_keep_their_bits(target: str) -> None:
    x = np.full((9, 9), -0.0, np.float32)
    assert np.signbit(run(scanned(x.shape, 1), target, x)).all()


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_nan_reaches_all_that_follow(kind: str) -> None:
    x = drawn((10, 30), "float32")
    x[3, 7] = np.nan
    got = run(scanned(x.shape, 1, kind), TARGETS[0], x)
    np.testing.assert_array_equal(got, expected(x, 1, kind))


def test_functions_of_elements_are_computed_in_the_scan() -> None:
    program = Program.create([("x", TensorType("float32", (21, 50))), ("w", TensorType("float32", (21, 50)))])
    with program.building("node"):
        x, w = program.inputs
        y = ops.cumulative(ops.mul(ops.add(x, w), w), kind="sum", axis=1)
    program.finish([("y", y)])
    x, w = drawn((21, 50), "float32"), drawn((50, 21), "float32").T.copy()
    got = np.asarray(Executable(compile_program(program, Options()))(x, w))
    np.testing.assert_allclose(got, np.cumsum((x + w) * w, 1), rtol=1e-4, atol=1e-4)


def schedule(program: Program) -> tuple[LoopKernel, Schedule]:
    target = find("avx2")
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(target))
    kernel = collapse(call.kernel)
    assert isinstance(kernel, LoopKernel)
    return kernel, Schedule.of(kernel, target)


def test_rows_that_are_scanned_together() -> None:
    _, rows = schedule(scanned((100, 64), 1))
    assert rows.rows is not None
    assert (rows.across, rows.lanes, rows.rows.even, rows.rows.whole) == ("i0", 8, False, True)
    _, columns = schedule(scanned((100, 64), 0))
    assert columns.rows is None
    assert (columns.scan, columns.lane) == (True, "i1")  # neighbouring columns are the lanes
    _, one = schedule(scanned((1000,), 0))
    assert (one.scan, one.rows, one.lane) == (True, None, "")  # in order, in a register
    _, few = schedule(scanned((3, 1000), 1))
    assert few.lanes == 4


def test_a_stage_that_reads_another_element_is_no_scan() -> None:
    kernel, _ = schedule(scanned((100, 64), 1))
    (stage,) = kernel.stages
    assert Scan.of(kernel) is not None
    (write,) = stage.writes
    (step,) = stage.loops
    shifted = substitute(write.offset, {step: Expr.of(step) + 1})
    other = replace(stage, writes=(replace(write, offset=shifted),))
    assert Scan.of(replace(kernel, stages=(other,))) is None
    assert Scan.of(replace(kernel, stages=(stage, stage))) is None
