"""Attention and its gradients as kernels of their own, against float64: several blocks of rows and keys, groups of heads,
masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn

pytestmark = pytest.mark.usefixtures("webgpu")

CASES = [  # batch, heads, key heads, queries, keys, features of queries, of values, options
    (1, 4, 2, 65, 65, 24, 24, {"is_causal": True}),
    (2, 3, 3, 33, 37, 16, 40, {}),
    (1, 1, 1, 9, 5, 8, 8, {}),
    (1, 2, 1, 13, 40, 33, 100, {"mask": "numbers"}),
    (1, 1, 1, 40, 40, 200, 130, {}),
    (1, 2, 2, 70, 70, 64, 64, {"is_causal": True}),
    (1, 2, 2, 3, 70, 64, 64, {}),
    (1, 2, 2, 45, 33, 17, 3, {"mask": "bools"}),
]


def floats(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if i < 2 else [pytest.mark.slow]) for i, case in enumerate(CASES)], ids=str
)
def test_attention_and_its_gradients(case: tuple[Any, ...]) -> None:
    b, h, g, s, t, d, e, options = case
    shapes = ((b, h, s, d), (b, g, t, d), (b, g, t, e), (b, h, s, e))
    q, k, v, weights = (floats(shape, i) for i, shape in enumerate(shapes))
    rng = np.random.default_rng(7)
    masks = {"numbers": rng.standard_normal((s, t)).astype(np.float32), "bools": rng.random((s, t)) < 0.5}
    mask = masks.get(options.get("mask", ""))
    if mask is not None and mask.dtype == bool:
        mask[2] = False  # no key: a result of zero
    causal = options.get("is_causal", False)

    def attended(q: Any, k: Any, v: Any) -> Any:
        bias = None if mask is None else burn.constant(mask)
        return burn.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)

    def function(q: Any, k: Any, v: Any, weights: Any) -> tuple[Any, ...]:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return burn.sum(attended(q, k, v) * weights)

        return attended(q, k, v), *burn.grad(loss, argnums=(0, 1, 2))(q, k, v)

    made = burn.compile(function, (q, k, v, weights), cache=False, device="wgpu")
    wide = tuple(x.astype(np.float64) for x in (q, k, v, weights))
    if mask is not None and mask.dtype != bool:
        mask = mask.astype(np.float64)
    want = burn.compile(function, wide, cache=False, device="cpu")(*wide)
    for x, y in zip(made(q, k, v, weights), want, strict=True):
        y = np.asarray(y)
        np.testing.assert_allclose(np.asarray(x), y, rtol=0, atol=3e-6 * np.abs(y).max())
    kinds = [row.kernel.kind for row in made.profile(q, k, v, weights).rows]
    assert "attention_gradient" in kinds and "host" not in kinds


def test_keys_that_a_row_does_not_see_are_not_read() -> None:
    """The bounds of causal attention: later keys and values are NaN, and no result is."""
    q, k, v = (floats((1, 1, 70, 8), i) for i in range(3))
    k[:, :, 40:], v[:, :, 40:] = np.nan, np.nan
    function = lambda q, k, v: burn.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    got = np.asarray(burn.compile(function, (q, k, v), cache=False, device="wgpu")(q, k, v))
    assert np.isfinite(got[:, :, :32]).all()
