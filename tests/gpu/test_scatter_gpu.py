"""Scatters on a real GPU: constant targets are ordered while compiling. Skipped without a GPU."""

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
