"""Attention as a function of tensors, with PyTorch's name and arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.promotion import lift, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query key^T * scale + attn_mask) value, in every head, as torch.nn.functional has it; `burn.ops.attention` has more
    options.

    Shapes: query [b, h, s, d], key [b, g, t, d], value [b, g, t, e] -> [b, h, s, e], or the same without the axis of heads. h is
    a multiple of g. Each key head serves h / g query heads, as in torch with `enable_gqa`. attn_mask broadcasts to [b, h, s, t].
    It has bools that are true for keys that take part, or numbers that are added to the scores. is_causal: query i sees keys up
    to i. scale: 1 / sqrt(d) unless it is given. A query whose keys are all masked gives zeros.

    Raises TypeMismatch for other ranks, and for a named size d without a scale."""
    q, k, v = together(query, key, value)
    ranks = {t.ndim for t in (q, k, v)}
    if ranks not in ({3}, {4}):
        types = ", ".join(str(t.type) for t in (q, k, v))
        raise TypeMismatch("attention takes [batch, heads, length, features] or [batch, length, features]", [types])
    single = ranks == {3}
    if single:
        q, k, v = (t.unsqueeze(1) for t in (q, k, v))
    if scale is None:
        features = q.shape[3]
        if not isinstance(features, int) or not features:
            raise TypeMismatch("attention needs a scale for queries without a fixed size", [f"{q.type}"])
        scale = 1 / math.sqrt(features)
    mask = None
    if attn_mask is not None:
        mask = lift(attn_mask, q.dtype)
        if mask.dtype != "bool":
            mask = mask.astype(q.dtype)
        if single and mask.ndim == 3:
            mask = mask.unsqueeze(1)
    result = made(
        build.attention(q.value, k.value, v.value, None if mask is None else mask.value, scale=scale, causal=is_causal)
    )
    return result.squeeze(1) if single else result
