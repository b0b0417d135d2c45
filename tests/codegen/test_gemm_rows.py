"""Tiles of rows: they never reach past the last one, whatever reads and writes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from tests.codegen.cpus import FLOAT_TARGETS


@pytest.mark.parametrize("rows", [1, 2, 5, 17, 97, 200])
def test_few_rows_and_a_depth_that_varies(rows: int) -> None:
    depth = symbol("depth")
    types = [("a", TensorType("float32", (3, rows, depth))), ("b", TensorType("float32", (3, depth, 16)))]
    program = Program.create(types)
    with program.building():
        a, b = program.inputs
        matmul = ops.dot_general(a, b, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,))
    run = executable(program.finish([("out", matmul)]))
    random = np.random.default_rng(3)
    for length in (1, 7, 33):
        a, b = (random.random(shape, np.float32) for shape in ((3, rows, length), (3, length, 16)))
        for _ in range(4):  # what is written past the end shows in the next allocation
            np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-4)


SIZES = [(1, 9, 3), (5, 1, 7), (8, 40, 16), (21, 17, 1), (67, 150, 70), (64, 256, 9), (3, 0, 5), (9, 33, 0)]


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_long_epilogues(turned: bool, target: str) -> None:
    """The epilogue of a matmul is a loop over a tile; the lhs is also read by columns. All sizes in one program."""
    rng = np.random.default_rng(5)
    arrays: list[np.ndarray] = []
    for m, n, k in SIZES:
        for shape in ((k, m) if turned else (m, k), (k, n), (n,), (m, n)):
            arrays.append(rng.standard_normal(shape).astype("f4"))
    program = Program.create([(f"x{i}", TensorType("float32", a.shape)) for i, a in enumerate(arrays)])
    with program.building():
        results = []
        for lhs, rhs, bias, other in zip(*(program.inputs[i::4] for i in range(4)), strict=True):
            matmul = ops.dot_general(lhs, rhs, lhs_contract=(0 if turned else 1,), rhs_contract=(0,))
            moved = ops.add(matmul, bias)
            results += [moved, ops.sub(ops.erf(ops.mul(moved, other)), ops.exp(ops.neg(ops.abs(moved))))]
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(results)]), Options(target=target))(*arrays)
    erf = np.vectorize(math.erf, otypes="d")
    wide = [a.astype("f8") for a in arrays]
    for i, (lhs, rhs, bias, other) in enumerate(zip(*(wide[i::4] for i in range(4)), strict=True)):
        moved = (lhs.T if turned else lhs) @ rhs + bias
        np.testing.assert_allclose(got[2 * i], moved, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got[2 * i + 1], erf(moved * other) - np.exp(-abs(moved)), rtol=1e-4, atol=1e-4)


DEEP = [(64, 70, 1600, "float32"), (65, 33, 2600, "float16"), (100, 64, 1537, "int32"), (64, 3, 2049, "float64")]


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_deep_matmuls(turned: bool, target: str) -> None:
    """A long depth is summed part by part, also in batches."""
    rng = np.random.default_rng(6)
    arrays: list[np.ndarray] = []
    for m, n, k, dtype in DEEP:
        for shape in ((2, k, m) if turned else (2, m, k), (2, k, n)):
            values = rng.integers(-9, 9, shape) if dtype == "int32" else rng.standard_normal(shape)
            arrays.append(values.astype(dtype))
    program = Program.create([(f"x{i}", TensorType(str(a.dtype), a.shape)) for i, a in enumerate(arrays)])
    with program.building():
        results = [
            ops.dot_general(
                lhs, rhs, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(1 if turned else 2,), rhs_contract=(1,)
            )
            for lhs, rhs in zip(program.inputs[::2], program.inputs[1::2], strict=True)
        ]
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(results)]), Options(target=target))(*arrays)
    for number, lhs, rhs, (*_, dtype) in zip(got, arrays[::2], arrays[1::2], DEEP, strict=True):
        want = (lhs.swapaxes(1, 2) if turned else lhs).astype("f8") @ rhs.astype("f8")
        bound = {"float32": 1e-4, "float16": 0.2, "int32": 0, "float64": 1e-11}[dtype]
        np.testing.assert_allclose(number.astype("f8"), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_a_depth_that_varies_is_summed_in_parts(target: str) -> None:
    depth = symbol("depth")
    program = Program.create([("a", TensorType("float32", (depth, 67))), ("b", TensorType("float32", (depth, 150)))])
    with program.building():
        a, b = program.inputs
        matmul = ops.dot_general(a, b, lhs_contract=(0,), rhs_contract=(0,))
    run = executable(program.finish([("out", matmul)]), Options(target=target))
    rng = np.random.default_rng(7)
    for length in (0, 1, 1023, 1024, 1025, 2500):
        a, b = (rng.standard_normal((length, n)).astype("f4") for n in (67, 150))
        np.testing.assert_allclose(run(a, b), a.astype("f8").T @ b.astype("f8"), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_any_number_of_rows(target: str) -> None:
    """Numbers of rows known at run time: one row has code of its own. Small and large rhs, and rows of two axes."""
    rng = np.random.default_rng(8)
    shapes = [(31, 70), (1600, 33), (64, 128)]
    weights = [rng.standard_normal(shape).astype("f4") for shape in shapes]
    program = Program.create(
        [(f"x{i}", TensorType("float32", (symbol("b"), symbol("s"), k))) for i, (k, _) in enumerate(shapes)]
    )
    with program.building():
        made = []
        for x, w in zip(program.inputs, weights, strict=True):
            right = ops.weight(key=program.weights.add_array(w, "w"), shape=w.shape, dtype="float32")
            made.append(ops.relu(ops.dot_general(x, right, lhs_contract=(2,), rhs_contract=(0,))))
    run = executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(target=target))
    for b, s in [(1, 1), (0, 3), (1, 2), (3, 1), (5, 13)]:
        xs = [rng.standard_normal((b, s, k)).astype("f4") for k, _ in shapes]
        for got, x, w in zip(run(*xs), xs, weights, strict=True):
            want = np.maximum(x.astype("f8") @ w, 0)
            np.testing.assert_allclose(got, want, atol=1e-6 * np.sqrt(w.shape[0]) * np.abs(want).max(initial=1))


@pytest.mark.covering(of=lambda rows, target: (rows, target))
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("columns", [1, 8, 15, 16, 17, 24, 31, 33, 45, 64])
@pytest.mark.parametrize("rows", [8, 37])
def test_long_epilogues_of_columns_that_do_not_fill_vectors(rows: int, columns: int, target: str) -> None:
    """Two vectors of a tile's columns are written together, each under its own mask."""
    rng = np.random.default_rng(columns)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((rows, 19), (19, columns), (columns,))]
    program = Program.create([(f"x{i}", TensorType("float32", a.shape)) for i, a in enumerate(arrays)])
    with program.building("node"):
        x, w, bias = program.inputs
        moved = ops.add(ops.dot_general(x, w, lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(0,)), bias)
        results = [moved, ops.sub(ops.erf(moved), ops.exp(ops.neg(ops.mul(moved, moved))))]
    program.finish([(f"y{i}", v) for i, v in enumerate(results)])
    got = executable(program, Options(target=target))(*arrays)
    wide = arrays[0].astype("f8") @ arrays[1].astype("f8") + arrays[2]
    erf = np.vectorize(math.erf, otypes="d")
    np.testing.assert_allclose(got[0], wide, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[1], erf(wide) - np.exp(-(wide**2)), rtol=1e-4, atol=2e-5)


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize(("groups", "each", "made"), [(1, 5, 7), (3, 10, 11), (4, 34, 33), (5, 1, 2), (2, 300, 400)])
def test_groups_of_channels(groups: int, each: int, made: int, target: str) -> None:
    """Convolutions of one pixel in groups: rows before groups where all filters stay in a cache; any number of images."""
    rng = np.random.default_rng(groups)
    w = rng.standard_normal((groups * made, each, 1, 1), np.float32)
    program = Program.create([("x", TensorType("float32", (symbol("n"), groups * each, 7, 9)))])
    options = {"strides": (1, 1), "dilations": (1, 1), "low": (0, 0), "high": (0, 0), "groups": groups}
    with program.building("convolution"):
        weight = ops.weight(key=program.weights.add_array(w, "w"), shape=w.shape, dtype="float32")
        y = ops.conv(program.inputs[0], weight, **options)
    run = executable(program.finish([("y", y)]), Options(target=target))
    for images in (0, 1, 3):
        x = rng.standard_normal((images, groups * each, 7, 9), np.float32)
        split = x.astype("f8").reshape(images, groups, each, 7, 9)
        want = np.einsum("ngchw,goc->ngohw", split, w.reshape(groups, made, each).astype("f8"))
        np.testing.assert_allclose(run(x), want.reshape(images, groups * made, 7, 9), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("rows", [1, 6, 23, 90])
@pytest.mark.parametrize("depth", [(1, 1), (3, 2), (5, 103), (7, 300)])
def test_rows_that_are_transposed_over_two_axes(depth: tuple[int, int], rows: int, target: str) -> None:
    """The lanes behind a tile's rows are written with each depth element: the next one, in the same or the next run of the inner
    axis, replaces them. The axes of the rhs have another order, so that the two do not become one."""
    rng = np.random.default_rng(11)
    i, j = depth
    a, b = (rng.standard_normal(shape).astype("f4") for shape in ((i, j, rows), (j, i, 130)))
    program = Program.create([("a", TensorType("float32", a.shape)), ("b", TensorType("float32", b.shape))])
    with program.building():
        matmul = ops.dot_general(*program.inputs, lhs_contract=(0, 1), rhs_contract=(1, 0))
    run = executable(program.finish([("y", matmul)]), Options(target=target))
    want = np.einsum("ijr,jic->rc", a.astype("f8"), b.astype("f8"))
    np.testing.assert_allclose(run(a, b), want, rtol=1e-4, atol=1e-4)
