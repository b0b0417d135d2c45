"""`burn.scaled_dot_product_attention` against the formula in float64."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch


def want(q, k, v, mask=None, causal=False, scale=None):
    q, k, v = (x.astype("float64") for x in (q, k, v))
    if k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True) @ v


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


@pytest.mark.parametrize(
    ("heads", "key_heads", "lengths", "options"),
    [
        (2, 2, (5, 7), {}),
        (4, 2, (5, 5), {"causal": True}),
        (3, 1, (1, 7), {"scale": 0.3}),
        (2, 2, (5, 7), {"mask": np.arange(7) < 4}),
        (2, 2, (5, 7), {"mask": drawn(5, 7)}),
        (2, 2, (7, 5), {"causal": True, "mask": np.arange(5) != 3}),
    ],
)
def test_it_is_softmax_of_scaled_scores(heads, key_heads, lengths, options) -> None:
    s, t = lengths
    q, k, v = drawn(2, heads, s, 6), drawn(2, key_heads, t, 6), drawn(2, key_heads, t, 3)
    got = burn.scaled_dot_product_attention(
        q, k, v, options.get("mask"), is_causal=options.get("causal", False), scale=options.get("scale")
    )
    np.testing.assert_allclose(got.numpy(), want(q, k, v, **options), rtol=2e-5, atol=2e-6)


def test_without_the_axis_of_heads() -> None:
    q, k, v = drawn(2, 5, 4), drawn(2, 6, 4), drawn(2, 6, 4)
    got = burn.scaled_dot_product_attention(q, k, v, drawn(2, 5, 6))
    wanted = want(q[:, None], k[:, None], v[:, None], drawn(2, 5, 6)[:, None])[:, 0]
    np.testing.assert_allclose(got.numpy(), wanted, rtol=2e-5, atol=2e-6)


def test_other_ranks_are_refused() -> None:
    with pytest.raises(TypeMismatch, match="heads, length, features"):
        burn.scaled_dot_product_attention(drawn(5, 4), drawn(5, 4), drawn(5, 4))
