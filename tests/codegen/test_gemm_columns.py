"""The rhs in every layout: columns contiguous or strided, in panels or not, one of everything."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.panels import last_vectors
from burn.codegen.cpu.passes import PIPELINE
from burn.codegen.cpu.target import host_targets
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.options import Options
from burn.runtime.host import features
from tests.codegen.test_gemm import numbers

SIZES = [(1, 1, 1), (1, 7, 5), (5, 1, 3), (8, 33, 4), (40, 17, 9), (2, 3, 1), (40, 1, 40)]


@pytest.mark.parametrize("passes", ["decompose,fuse", PIPELINE.text], ids=["plain", "packed"])
@pytest.mark.parametrize("turned", [False, True], ids=["side by side", "apart"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_matmuls(dtype: str, turned: bool, passes: str) -> None:
    """All sizes in one program, in batches of two."""
    rng = np.random.default_rng(1)
    arrays: list[np.ndarray] = []
    for m, n, k in SIZES:
        for shape in ((2, m, k), (2, n, k) if turned else (2, k, n)):
            arrays.append(rng.standard_normal(shape).astype(numpy_dtype(dtype)))
    program = Program.create([(f"x{i}", TensorType(dtype, a.shape)) for i, a in enumerate(arrays)])
    with program.building("products"):
        results = [
            ops.dot_general(
                lhs, rhs, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(2 if turned else 1,)
            )
            for lhs, rhs in zip(program.inputs[::2], program.inputs[1::2], strict=True)
        ]
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(results)]), Options(passes=passes))(*arrays)
    bound = {"float32": 1e-5, "float16": 2e-2}[dtype]
    for number, lhs, rhs in zip(got, arrays[::2], arrays[1::2], strict=True):
        want = lhs.astype("f8") @ (rhs.swapaxes(1, 2) if turned else rhs).astype("f8")
        np.testing.assert_allclose(number.astype("f8"), want, rtol=bound, atol=bound)


@pytest.mark.covering
@pytest.mark.parametrize(("rows", "depth"), [(1, 3), (7, 64), (67, 40), (13, 2500)])
@pytest.mark.parametrize("columns", [17, 34, 35, 67, 129])
@pytest.mark.parametrize("target", [target.name for target in host_targets(features())])
@pytest.mark.parametrize(("lhs", "rhs"), [("float32", "float32"), ("uint8", "int8")])
@pytest.mark.parametrize("constant", [False, True])
def test_last_panels_with_few_columns(
    target: str, lhs: str, rhs: str, constant: bool, columns: int, rows: int, depth: int
) -> None:
    """Vectors that a last panel has no columns for are left out, whatever rows and depth; others stay as they are."""
    rng = np.random.default_rng(2)
    a = numbers(rng, (rows, depth), lhs)
    b = numbers(rng, (depth, columns), rhs)
    n, result = symbol("n"), "float32" if lhs == "float32" else "int32"
    inputs = [("a", TensorType(lhs, (n, depth))), ("b", TensorType(rhs, (depth, columns)))]
    program = Program.create(inputs[:1] if constant else inputs)
    with program.building("product"):
        if constant:
            right = ops.weight(key=program.weights.add_array(b, "b"), shape=b.shape, dtype=rhs)
        else:
            right = program.inputs[1]
        y = ops.dot_general(program.inputs[0], right, lhs_contract=(1,), rhs_contract=(0,), dtype=result)
        y = ops.relu(y)
    run = executable(program.finish([("y", y)]), Options(target=target))
    got = run(a) if constant else run(a, b)
    want = np.maximum(a.astype("f8") @ b.astype("f8"), 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=0 if result == "int32" else 1e-3)


def test_which_panels_are_narrow() -> None:
    """Where a vector of a few is spared, and not where one of many would be."""
    assert [last_vectors(columns, 16, 8) for columns in (34, 40, 48, 33, 8, 4)] == [1, 1, None, 1, 1, 1]
    assert [last_vectors(columns, 64, 16) for columns in (1000, 129, 64, 65)] == [None, 1, None, 1]
