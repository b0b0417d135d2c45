"""Decoding step by step with a cache gives what the whole sequence gives at once, lazily and compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import RunError, TypeMismatch

LLAMA: dict[str, Any] = {
    "norm_first": True,
    "norm": "rms",
    "gated": True,
    "activation": "silu",
    "bias": False,
    "kv_heads": 2,
    "rotary": True,
}


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def llama() -> nn.TransformerEncoder:
    return nn.TransformerEncoder(16, 4, 24, 2, **LLAMA)


@pytest.mark.parametrize("capacity", [None, 9])
def test_decoding_is_the_whole_sequence(capacity: int | None) -> None:
    model, x = llama(), draw(2, 7, 16)
    want = model(burn.constant(x), causal=True).numpy()
    cache, got, start = model.start(2, capacity), [], 0
    for count in (3, 1, 1, 2):
        y, cache = model(burn.constant(x[:, start : start + count]), causal=True, cache=cache)
        got.append(y.numpy())
        start += count
    np.testing.assert_allclose(np.concatenate(got, 1), want, rtol=1e-4, atol=1e-5)
    assert cache[0].own.keys.shape[2] == (7 if capacity is None else 9)


def test_one_program_decodes_every_length() -> None:
    model, x = llama(), draw(2, 7, 16)
    want = model(burn.constant(x), causal=True).numpy()
    kept = "float32[batch, 2, past, 4]"
    types = tuple(nn.LayerCache(nn.KeyValueCache(kept, kept)) for _ in range(2))  # type: ignore[arg-type]
    step = burn.compile(lambda x, cache: model(x, causal=True, cache=cache), ("float32[batch, s, 16]", types))
    cache, got, start, before = model.start(2), [], 0, None
    for count in (1, 4, 2):
        y, cache = step(x[:, start : start + count], cache)
        before = burn.compile_count() if before is None else before
        got.append(np.asarray(y))
        start += count
    np.testing.assert_allclose(np.concatenate(got, 1), want, rtol=1e-4, atol=1e-5)
    assert burn.compile_count() == before


def test_one_program_decodes_in_place_of_a_fixed_size() -> None:
    model, x = llama(), draw(1, 5, 16)
    want = model(burn.constant(x), causal=True).numpy()
    cache = model.start(1, 5)
    step = burn.compile(lambda x, cache: model(x, causal=True, cache=cache), (x[:, :1], cache))
    got = []
    for position in range(5):
        y, cache = step(x[:, position : position + 1], cache)
        got.append(np.asarray(y))
    np.testing.assert_allclose(np.concatenate(got, 1), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(RunError, match="index"):
        step(x[:, :1], cache)
    with pytest.raises(TypeMismatch, match="too small"):
        model(burn.constant(draw(1, 6, 16)), cache=model.start(1, 5))


@pytest.mark.parametrize("capacity", [None, 6])
def test_a_decoder_keeps_its_memory(capacity: int | None) -> None:
    model, x, memory = nn.TransformerDecoder(12, 3, 20, 2, memory_dim=5), draw(2, 6, 12), burn.constant(draw(2, 4, 5))
    want = model(burn.constant(x), memory).numpy()
    cache, got = model.start(memory, capacity), []
    for position in range(0, 6, 2):
        y, cache = model(burn.constant(x[:, position : position + 2]), cache=cache)
        got.append(y.numpy())
    np.testing.assert_allclose(np.concatenate(got, 1), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeMismatch, match="nothing to attend to"):
        model(burn.constant(x))


def test_wrong_sizes_are_told() -> None:
    with pytest.raises(TypeMismatch, match="cannot split its features"):
        nn.MultiheadAttention(10, 3)
    with pytest.raises(TypeMismatch, match="cannot share its key heads"):
        nn.MultiheadAttention(12, 4, kv_heads=3)
    with pytest.raises(TypeMismatch, match=r"takes sequences \[b, length, features\]"):
        nn.MultiheadAttention(4, 2)(burn.constant(draw(3, 4)))
    with pytest.raises(TypeMismatch, match="a cache a layer"):
        llama()(burn.constant(draw(1, 1, 16)), cache=())


def test_dropout_of_attention_in_training() -> None:
    layer, x = nn.MultiheadAttention(8, 2, dropout=0.5).train(), burn.constant(draw(2, 5, 8))
    key = burn.random.key(3)
    a, b = (layer(x, causal=True, dropout_key=key).numpy() for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, layer(x, causal=True).numpy())
    layer.dropout.p = 1e-9  # the same sums, without dropping any
    np.testing.assert_allclose(
        layer(x, causal=True).numpy(), layer.eval()(x, causal=True).numpy(), rtol=1e-5, atol=1e-6
    )
