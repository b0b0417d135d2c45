"""torch.nn's encoder layers and attention in inference without gradients, where torch calls operators of a fast path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

LENGTH = 5
CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
PADDED = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [3]])


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "both"])
def test_encoder_layers(norm_first: bool, activation: str, mask: str) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, norm_first=norm_first, activation=activation)
    masks = {
        "src_mask": CAUSAL if mask == "causal" else CAUSAL != 0 if mask == "both" else None,
        "src_key_padding_mask": PADDED if mask in ("padding", "both") else None,
    }
    with torch.no_grad():
        x = torch.randn(2, LENGTH, 16)
        want = layer.eval()(x, **masks)
        torch.testing.assert_close(torch.compile(layer, backend="burn")(x, **masks), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_attention(weights: bool, averaged: bool) -> None:
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    compiled = torch.compile(attention, backend="burn")
    given = {"need_weights": weights, "average_attn_weights": averaged, "key_padding_mask": PADDED}
    with torch.no_grad():
        x = torch.randn(2, LENGTH, 16)
        want, got = attention(x, x, x, **given), compiled(x, x, x, **given)
    torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    assert (got[1] is None) == (want[1] is None)
    if weights:
        torch.testing.assert_close(got[1], want[1], rtol=1e-4, atol=1e-5)
