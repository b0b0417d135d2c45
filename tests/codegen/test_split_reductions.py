"""Reductions of everything: in blocks side by side, the same for any number of threads, and as exact as they were."""

from __future__ import annotations

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.types import TensorType
from burn.runtime.executable import Executable
from tests.codegen.running import call, compiled

KINDS = ("sum", "max", "min")


@pytest.fixture(scope="module")
def totals() -> Executable:
    """A sum, the largest and the smallest, of floats, half precision and integers of a size known at run time."""
    n = symbol("n")
    types = [TensorType(dtype, (n, 3)) for dtype in ("float32", "float16", "int32")]
    return compiled(types, lambda *xs: [ops.reduce(x, kind=kind, axes=(0, 1)) for x in xs for kind in KINDS])


@pytest.mark.parametrize("n", [0, 1, 7, 5461, 5462, 54613])
def test_numbers(totals: Executable, n: int) -> None:
    rng = np.random.default_rng(n)
    arrays = [rng.standard_normal((n, 3)).astype(t) for t in ("f4", "f2")]
    arrays.append(rng.integers(-1000, 1000, (n, 3)).astype("i4"))
    got = iter(call(totals, *arrays))
    for array in arrays:
        total, largest, smallest = next(got), next(got), next(got)
        exact = array.astype("f8")
        bound = {"f": 1e-6, "e": 1e-3, "i": 0}[array.dtype.char] * max(1.0, np.abs(exact).sum() ** 0.5)
        np.testing.assert_allclose(float(total), exact.sum(), rtol=bound, atol=bound)
        if n:
            assert largest == array.max() and smallest == array.min()


def test_more_than_one_kernel_runs_side_by_side(totals: Executable) -> None:
    assert len(totals.artefact.kernels) == 2 * 3 * len(KINDS)


def test_what_follows_reads_the_total() -> None:
    mean = compiled(
        [TensorType("float32", (70_001,))],
        lambda x: ops.exp(ops.reduce(ops.abs(x), kind="max", axes=(0,), keepdims=True)),
    )
    x = np.linspace(-2, 1, 70_001, dtype="f4")
    np.testing.assert_allclose(mean(x), [np.exp(2.0)], rtol=1e-6)
