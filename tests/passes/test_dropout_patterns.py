"""Attention with dropout is recognised: where, with which key and rate, and where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.dialect.program import Program
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.tracing.trace import trace

SHAPES = {"q": "float32[2, 3, 8, 16]", "k": "float32[2, 3, 8, 16]", "v": "float32[2, 3, 8, 5]", "key": "uint32[2]"}
TRIANGLE = np.tri(12, dtype=np.float32)[None, None]


def dropped(p: Any, key: Any, rate: float = 0.1, factor: float | None = None) -> Any:
    factor = 1 / (1 - rate) if factor is None else factor
    return ops.select(ops.random_kept(key, shape=p.shape, rate=rate), p * factor, 0.0)


def plain(q: Any, k: Any, v: Any, key: Any) -> Any:
    return dropped(burn.softmax(q @ k.mT * 0.25, axis=-1), key) @ v


def with_gpt_mask(q: Any, k: Any, v: Any, key: Any) -> Any:
    shown = burn.tensor(TRIANGLE)[:, :, :8, :8]
    return dropped(burn.softmax(q @ k.mT * 0.25 * shown + -1e4 * (1 - shown), axis=-1), key) @ v


def with_other_factor(q: Any, k: Any, v: Any, key: Any) -> Any:
    return dropped(burn.softmax(q @ k.mT * 0.25, axis=-1), key, factor=1.5) @ v


def read_twice(q: Any, k: Any, v: Any, key: Any) -> Any:
    p = dropped(burn.softmax(q @ k.mT * 0.25, axis=-1), key)
    return p @ v, p


def recognised(function: Any) -> Program:
    program = trace(function, SHAPES)
    pipeline.run(pipeline.parse("simplify,recognise,simplify"), program, Environment())
    return program


def text(function: Any) -> str:
    return str(recognised(function).module)


def test_plain() -> None:
    found = text(plain)
    assert found.count('"burn.attention"') == 1
    assert "softmax" not in found and "random_kept" not in found
    assert "rate = 1.000000e-01" in found and "causal = false" in found


def test_causal_mask_of_gpt() -> None:
    found = text(with_gpt_mask)
    assert found.count('"burn.attention"') == 1 and "causal = true" in found and "slice" not in found


@pytest.mark.parametrize("function", [with_other_factor, read_twice], ids=lambda f: f.__name__)
def test_others_stay(function: Any) -> None:
    found = text(function)
    assert "attention" not in found and "burn.softmax" in found and "random_kept" in found


@pytest.mark.parametrize("function", [plain, with_gpt_mask], ids=lambda f: f.__name__)
def test_same_results(function: Any) -> None:
    """As without the pattern, with the same mask."""
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((2, 3, 8, n)).astype(np.float32) for n in (16, 16, 5)]
    given = [*map(burn.tensor, arrays), burn.random.key(5)]
    alone = (
        burn.compile(lambda q, k, v, key: read_twice(q, k, v, key)[0], given, cache=False)
        if function is plain
        else None
    )
    got = burn.compile(function, given, cache=False)(*given).numpy()
    if alone is not None:
        np.testing.assert_allclose(got, alone(*given).numpy(), rtol=1e-5, atol=1e-6)
    kept = ops.random_kept(given[-1], shape=(2, 3, 8, 8), rate=0.1).numpy()
    q, k, v = (x.astype(np.float64) for x in arrays)
    score = q @ k.swapaxes(2, 3) * 0.25
    if function is with_gpt_mask:
        score = np.where(np.tri(8, dtype=bool), score, -np.inf)
    p = np.exp(score - score.max(-1, keepdims=True))
    want = p / p.sum(-1, keepdims=True) * kept / 0.9 @ v
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exact", [False, True])
def test_scores_below_the_mask(exact: bool) -> None:
    """Exact programs compute the formula, even if hidden scores are the largest. Others hide them."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        shown = burn.tensor(TRIANGLE)[:, :, :8, :8]
        return burn.softmax(q @ k.mT * shown + -1e4 * (1 - shown), axis=-1) @ v

    arrays = [np.full((1, 1, 8, 4), n, np.float32) for n in (-3000, 1)]
    arrays.append(np.random.default_rng(4).standard_normal((1, 1, 8, 5), np.float32))
    given = list(map(burn.tensor, arrays))
    got = burn.compile(attention, given, cache=False, exact=exact)(*given).numpy()
    score = np.where(np.tri(8, dtype=bool), -12000.0, -1e4 if exact else -np.inf)
    p = np.exp(score - score.max(-1, keepdims=True))
    np.testing.assert_allclose(got[0, 0], p / p.sum(-1, keepdims=True) @ arrays[2][0, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "number"), [("float32", -np.inf), ("int64", -(2**60) - 1)])
def test_multiplied_masks_that_are_no_choice(dtype: str, number: float) -> None:
    """Zero times infinity is NaN, and a float does not have all integers."""
    shown = np.tri(4).astype(dtype)
    x = np.arange(1, 17).reshape(4, 4).astype(dtype)

    def masked(x: Any) -> Any:
        part = burn.tensor(shown)
        return x * part + (1 - part) * number

    with np.errstate(invalid="ignore"):
        want = x * shown + (1 - shown) * np.array(number, dtype)
    np.testing.assert_array_equal(burn.compile(masked, [burn.tensor(x)], cache=False)(burn.tensor(x)).numpy(), want)
