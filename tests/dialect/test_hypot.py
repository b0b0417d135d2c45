"""The op that CONTRIBUTING.md adds as an example."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import TypeMismatch


@pytest.mark.parametrize("rows", [0, 1, 3, 17, 1021])
def test_hypot_is_the_length_of_a_vector(rows: int) -> None:
    program = Program.create([("a", TensorType("float32", (symbol("rows"), 13))), ("b", TensorType("float32", (13,)))])
    with program.building("hypot"):
        result = ops.hypot(*program.inputs)
    run = executable(program.finish([("length", result)]))
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((rows, 13), np.float32), rng.standard_normal(13, np.float32)
    np.testing.assert_allclose(run(a, b), np.hypot(a.astype(np.float64), b), rtol=3e-7)


def test_hypot_refuses_integers() -> None:
    program = Program.create([("a", TensorType("int32", (2,))), ("b", TensorType("int32", (2,)))])
    with program.building("hypot"), pytest.raises(TypeMismatch, match="does not take int32"):
        ops.hypot(*program.inputs)
