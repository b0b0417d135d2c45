"""Kernels whose operands lie another way than they are read: turned in registers, tile by tile, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import find, host_targets
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.runtime.host import features
from burn.tensors import Tensor

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_loads_across_the_lanes(dtype: str) -> None:
    """Squares, what is left of rows and of columns, and axes that are shorter than a vector."""
    cases = [
        *[((33, 70), (1, 0)), ((17, 19), (1, 0)), ((3, 33, 65), (2, 1, 0)), ((2, 5, 40, 48), (0, 3, 1, 2))],
        *[((2, channels, 5, 7), (0, 2, 3, 1)) for channels in (1, 2, 3, 4, 5)],  # lanes that one short vector holds
        *[((1, 3, 41, width), (0, 2, 3, 1)) for width in (1, 3, 4, 64)],
        *[
            ((2, 41, channels), (0, 2, 1)) for channels in (6, 8, 12, 24)
        ],  # blocks of fewer rows than a vector has lanes
        *[((2, 24, length), (0, 2, 1)) for length in (4, 9, 15)],
    ]
    for shape, order in cases:
        x = (RNG.standard_normal(shape) * 10).astype(dtype)
        turned = np.transpose(x, order)
        y = np.ascontiguousarray(turned)
        found = burn.jit(lambda x, y, order=order: x.permute(*order) * 2 + y)(x, y)
        np.testing.assert_array_equal(found, turned * np.array(2, dtype) + y)


@pytest.mark.parametrize("target", ["avx512", "avx2", "generic", "neon"])
@pytest.mark.parametrize("channels", [4, 8, 12, 24])
def test_phases_of_few_channels_are_transposed_in_registers(channels: int, target: str) -> None:
    """The pixels of blocks of 2 x 2 become neighbours, and channels come first. Only elements outside of square blocks are
    gathered."""
    program = Program.create([("x", TensorType("float32", (1, 9, 16, 2, 2, channels)))])
    with program.building("arrange"):
        rows = ops.transpose(program.inputs[0], permutation=(0, 5, 1, 3, 2, 4))
        y = ops.relu(ops.reshape(rows, shape=(1, channels, 18, 32)))
    program.finish([("y", y)])
    printer = KernelPrinter(find(target))
    with context():
        pipeline.run(pipeline.parse("decompose,fuse,release"), program, Environment(CPU(find(target))))
        for operation in program.block.operations:
            if isinstance(operation.opview, Group):
                printer.group(operation.opview)
    (text,) = printer.functions
    assert "vector.shuffle" in text


@pytest.mark.covering
@pytest.mark.parametrize("target", [target.name for target in host_targets(features())])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "float16"])
def test_interleaved_rows(dtype: str, target: str) -> None:
    """One element of each row after the other, interleaved. The index may also be divided, as in a channel shuffle. Rows have one
    vector, several, a partial last vector, or less than a vector."""
    batch = symbol("n")
    for count in (2, 3, 4, 5):
        for length in (1, 7, 16, 17, 34, 160):
            program = Program.create([("x", TensorType(dtype, (batch, 3, count * length)))])
            with program.building("shuffle"):
                y = ops.reshape(program.inputs[0], shape=(batch, 3, count, length))
                y = ops.transpose(y, permutation=(0, 1, 3, 2))
                z = ops.reshape(y, shape=(batch, 3, count * length))
            run = executable(program.finish([("y", y), ("z", z)]), Options(target=target))
            for rows in (2, 0):
                x = (RNG.standard_normal((rows, 3, count, length)) * 20).astype(dtype)
                want = np.swapaxes(x, 2, 3)
                turned, shuffled = run(x.reshape(rows, 3, count * length))
                np.testing.assert_array_equal(turned, want)
                np.testing.assert_array_equal(shuffled, want.reshape(rows, 3, count * length))


@pytest.mark.covering
@pytest.mark.parametrize("target", [target.name for target in host_targets(features())])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_rows_that_are_repeated(count: int, target: str) -> None:
    """An element several times behind each other: the interleaved rows are the same."""
    program = Program.create(
        [("x", TensorType("float32", (symbol("n"), 37, 1))), ("z", TensorType("float32", (64, 1)))]
    )
    with program.building("repeat"):
        x, z = program.inputs
        y = ops.broadcast_to(x, shape=(symbol("n"), 37, count))
        w = ops.broadcast_to(z, shape=(64, count))
    run = executable(program.finish([("y", y), ("w", w)]), Options(target=target))
    for rows in (2, 0):
        x, z = (RNG.standard_normal(shape).astype("float32") for shape in ((rows, 37, 1), (64, 1)))
        for got, given in zip(run(x, z), (x, z), strict=True):
            np.testing.assert_array_equal(got, np.repeat(given, count, -1))


def _dot(lhs: int, rhs: int) -> Any:
    def dot(a: Tensor, b: Tensor) -> Tensor:
        return Tensor(ops.dot_general(a.value, b.value, lhs_contract=(lhs,), rhs_contract=(rhs,)))

    return burn.jit(dot)


@pytest.mark.parametrize("lhs", [0, 1])
@pytest.mark.parametrize("rhs", [0, 1])
@pytest.mark.parametrize("sizes", [(65, 33, 129), (8, 300, 256), (13, 1, 140), (301, 40, 130)], ids=str)
def test_matmuls_of_transposed_operands(lhs: int, rhs: int, sizes: tuple[int, int, int]) -> None:
    rows, depth, columns = sizes
    a, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
    given = (a if lhs else np.ascontiguousarray(a.T)), (np.ascontiguousarray(b.T) if rhs else b)
    want = a.astype(np.float64) @ b
    np.testing.assert_allclose(_dot(lhs, rhs)(*given), want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(4096, 33), (1, 5000, 17), (7, 111, 13, 5), (3, 9999), (30011, 2)], ids=str)
@pytest.mark.parametrize("named", [False, True])
def test_long_columns(shape: tuple[int, ...], named: bool) -> None:
    """Normalised by their own statistics: two reductions, the second of the first one's results, and one elementwise write."""
    x = RNG.standard_normal(shape).astype(np.float32)
    axes = tuple(range(len(shape) - 1))

    def normalised(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        centred = x - x.mean(axes, keepdims=True)
        variance = (centred * centred).mean(axes, keepdims=True)
        return centred * (variance + 1e-5).rsqrt(), variance, x.max(axes)

    y, variance, most = burn.jit(normalised, dynamic={"x": {0: "n"}} if named else None)(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(variance, wide.var(axes, keepdims=True), rtol=1e-5)
    want = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(most, x.max(axes))


def test_long_columns_do_not_depend_on_threads() -> None:
    x = RNG.standard_normal((20000, 24)).astype(np.float32)
    total = burn.jit(lambda x: x.sum(0))
    found = []
    for threads in (1, 2):
        burn.set_num_threads(threads)
        found.append(total(x))
    np.testing.assert_array_equal(*found)


def test_what_lies_under_windows() -> None:
    x = RNG.standard_normal((2, 7, 9, 3)).astype(np.float32)

    def windows(x: Tensor) -> Tensor:
        return Tensor(ops.windows(x.value, axis=1, window=(3, 2), strides=(2, 3), dilations=(1, 2)))

    found = burn.jit(windows)(x)
    assert found.shape == (2, 3, 3, 3, 2, 3)
    for e, f, k, m in np.ndindex(3, 3, 3, 2):
        np.testing.assert_array_equal(found[:, e, f, k, m], x[:, 2 * e + k, 3 * f + 2 * m])
    np.testing.assert_array_equal(windows(burn.tensor(x)).numpy(), found)
