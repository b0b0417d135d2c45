"""The operators of the fast path of `torch.nn.TransformerEncoderLayer` and `torch.nn.MultiheadAttention`, which runs in inference
without gradients, in torch's other operators. Enter at `FAST_PATH`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten

PADDING = 1
"""The kind of a mask [batch, keys]; others are [queries, keys] or [batch, heads, queries, keys]."""


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of [batch, length, embed_dim] and its weights, an empty tensor unless they are needed. Masked are the elements
    whose mask is not zero."""
    q, k, v = (
        F.linear(x, weight, bias).unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
        for x, weight, bias in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    )
    kept = None if mask is None else mask == 0
    if kept is not None and mask_type == PADDING:
        kept = kept[:, None, None, :]
    if not need_weights:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=kept)
        return F.linear(mixed.transpose(1, 2).flatten(2), proj_weight, proj_bias), query.new_empty(0)
    scores = q @ k.transpose(-2, -1) / (embed_dim // num_head) ** 0.5
    weights = (scores if kept is None else scores.masked_fill(~kept, float("-inf"))).softmax(-1)
    result = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    return result, weights.mean(1) if average_attn_weights else weights


def transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """A layer: attention and a feed-forward network, each with a residual connection and a norm before or after it."""

    def first_norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attended(x: Tensor) -> Tensor:
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return multi_head_attention(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)[0]

    def fed_forward(x: Tensor) -> Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attended(first_norm(src))
        return x + fed_forward(second_norm(x))
    x = first_norm(src + attended(src))
    return second_norm(x + fed_forward(x))


FAST_PATH: dict[Any, Callable[..., Any]] = {
    aten._native_multi_head_attention.default: multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
}
"""Operator -> the function that replaces it."""
