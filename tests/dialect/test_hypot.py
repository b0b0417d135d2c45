"""The op that CONTRIBUTING.md adds as an example."""

from __future__ import annotations

import numpy as np
import pytest

import burn
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


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_hypot_of_the_largest_and_smallest_numbers(dtype: str) -> None:
    info = np.finfo(dtype)
    ends = [0.0, info.smallest_subnormal, info.tiny, 3 * info.tiny, info.eps, 1.0, 1 / info.eps, info.max / 2, info.max]
    numbers = np.array([*ends, np.inf, np.nan], dtype)
    numbers = np.concatenate([numbers, -numbers])
    with np.errstate(all="ignore"):
        want = np.hypot(numbers[:, None].astype(np.longdouble), numbers.astype(np.longdouble)).astype(dtype)
    got = np.asarray(burn.hypot(burn.tensor(numbers[:, None]), burn.tensor(numbers)))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2 * info.eps, atol=float(info.smallest_subnormal))
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


def test_hypot_refuses_integers() -> None:
    program = Program.create([("a", TensorType("int32", (2,))), ("b", TensorType("int32", (2,)))])
    with program.building("hypot"), pytest.raises(TypeMismatch, match="does not take int32"):
        ops.hypot(*program.inputs)
