"""Products with few rows and a sum whose length varies: tiles of rows never reach past the last one."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType


@pytest.mark.parametrize("rows", [1, 2, 5, 17, 97, 200])
def test_few_rows_and_a_depth_that_varies(rows: int) -> None:
    depth = symbol("depth")
    types = [("a", TensorType("float32", (3, rows, depth))), ("b", TensorType("float32", (3, depth, 16)))]
    program = Program.create(types)
    with program.building():
        a, b = program.inputs
        product = ops.dot_general(a, b, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,))
    run = executable(program.finish([("out", product)]))
    random = np.random.default_rng(3)
    for length in (1, 7, 33):
        a, b = (random.random(shape, np.float32) for shape in ((3, rows, length), (3, length, 16)))
        for _ in range(4):  # what is written past the end shows in the next allocation
            np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-4)
