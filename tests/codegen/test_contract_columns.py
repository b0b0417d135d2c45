"""Right sides however they lie: columns side by side or apart, in panels or not, one of everything."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import PIPELINE, executable
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype

SIZES = [(1, 1, 1), (1, 7, 5), (5, 1, 3), (8, 33, 4), (40, 17, 9), (2, 3, 1), (40, 1, 40)]


@pytest.mark.parametrize("passes", ["decompose,fuse", PIPELINE], ids=["plain", "packed"])
@pytest.mark.parametrize("turned", [False, True], ids=["side by side", "apart"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products(dtype: str, turned: bool, passes: str) -> None:
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
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(results)]), passes=passes)(*arrays)
    bound = {"float32": 1e-5, "float16": 2e-2}[dtype]
    for number, lhs, rhs in zip(got, arrays[::2], arrays[1::2], strict=True):
        want = lhs.astype("f8") @ (rhs.swapaxes(1, 2) if turned else rhs).astype("f8")
        np.testing.assert_allclose(number.astype("f8"), want, rtol=bound, atol=bound)
