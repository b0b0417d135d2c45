"""The variance as an op of its own."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn import ops
from burn.errors import TypeMismatch


@pytest.mark.parametrize("keepdims", [False, True])
def test_variance(keepdims: bool) -> None:
    """For any n, far from zero too, where the mean square less the squared mean has no digits left."""
    compiled = burn.compile(lambda x: ops.variance(x, axes=(0, -1), keepdims=keepdims), ("float32[n, 3, 5]",))
    rng = np.random.default_rng(7)
    for n in (1, 2, 7):
        x = (rng.standard_normal((n, 3, 5)) + 1000.0).astype(np.float32)
        want = x.astype(np.float64).var(axis=(0, 2), keepdims=keepdims)
        np.testing.assert_allclose(compiled(x), want, rtol=2e-4)


def test_half_precision_is_summed_in_float32() -> None:
    x = burn.full((4096,), 3.0, dtype="float16")
    assert float(ops.variance(x, axes=(0,))) == 0.0


def test_floats_alone_vary() -> None:
    with pytest.raises(TypeMismatch, match="does not take int64"):
        ops.variance(burn.arange(3), axes=(0,))
