"""Scatters on a real GPU: beside numpy, and the same bits again. Skipped without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops

pytest.importorskip("triton")

COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("reduction", ["none", *COMBINED])
@pytest.mark.parametrize(
    ("rows", "count", "length"), [(732, 38809, 12), (169, 2401, 3), (2, 4096, 33), (3000, 900, 65)]
)
def test_constant_targets(reduction: str, rows: int, count: int, length: int) -> None:
    data = np.random.default_rng(count)
    x = data.standard_normal((rows, length)).astype(np.float32)
    updates = (1 + data.standard_normal((count, length)) / 100).astype(np.float32)
    indices = (data.random(count) ** 2 * rows).astype(np.int64)

    def scattered(x: Any, u: Any) -> Any:
        return ops.scatter_nd(x, burn.tensor(indices[:, None]), u, reduction=reduction)

    made = burn.compile(scattered, (x, updates), cache=False, device="cuda")
    assert len([k for k in made.artefact.kernels if k.kind != "segments"]) == 0
    want = x.astype(np.float64)
    if reduction == "none":
        want[indices] = updates  # the last of several
    else:
        COMBINED[reduction].at(want, indices, updates.astype(np.float64))
    np.testing.assert_allclose(made(x, updates), want, rtol=2e-5, atol=2e-5)
    assert np.asarray(made(x, updates)).tobytes() == np.asarray(made(x, updates)).tobytes()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("rows", "count", "length"),
    [(732, 38809, 12), (100_000, 300_000, 16), (3, 9000, 5), (30_522, 4096, 96), (70_000, 70_001, 1)],
)
def test_targets_of_a_run(rows: int, count: int, length: int, dynamic: bool) -> None:
    data = np.random.default_rng(count)
    x = data.standard_normal((rows, length)).astype(np.float32)
    updates = data.standard_normal((count, length)).astype(np.float32)
    indices = (data.random((count, 1)) ** 3 * rows).astype(np.int64)
    sizes = {"x": {0: "rows"}, "i": {0: "n"}, "u": {0: "n"}} if dynamic else None

    def scattered(x: Any, i: Any, u: Any) -> Any:
        return ops.scatter_nd(x, i, u, reduction="add")

    made = burn.compile(scattered, (x, indices, updates), sizes, cache=False, device="cuda")
    want = x.astype(np.float64)
    np.add.at(want, indices[:, 0], updates.astype(np.float64))
    got = made(x, indices, updates)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-4)
    assert np.asarray(got).tobytes() == np.asarray(made(x, indices, updates)).tobytes()


@pytest.mark.parametrize("axis", [0, 1])
def test_elements(axis: int) -> None:
    data = np.random.default_rng(axis)
    shape = (4000, 37) if axis == 0 else (5, 9001)
    x = data.standard_normal((1000, 40) if axis == 0 else (6, 1000)).astype(np.float32)
    updates, indices = data.standard_normal(shape).astype(np.float32), data.integers(-1000, 1000, shape)

    def scattered(x: Any, i: Any, u: Any) -> Any:
        return ops.scatter_elements(x, i, u, axis=axis, reduction="add")

    made = burn.compile(scattered, (x, indices, updates), cache=False, device="cuda")
    want, at = x.astype(np.float64), list(np.indices(shape))
    at[axis] = indices
    np.add.at(want, tuple(at), updates.astype(np.float64))
    np.testing.assert_allclose(made(x, indices, updates), want, rtol=1e-5, atol=1e-5)
