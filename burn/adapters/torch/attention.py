"""`scaled_dot_product_attention` in graphs of a GPU, so that AOTAutograd keeps it whole. Enter at `keep_attention`.

By itself torch chooses one of its kernels while it traces. For many masks and types it chooses the one of float32 matmuls.
burn's kernels take every mask, so attention is traced as one operator with a gradient of its own. Attention with dropout
is written out here with matmuls in the operands' type and softmax in float32.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, fx
from torch._C._functorch import peek_interpreter_stack
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from burn.importers.torch.flex_attention import in_order, order_of, repeated_heads, wide_matmul

NAME = "scaled_dot_product_attention"


def keep_attention(graph: fx.GraphModule) -> None:
    """Replaces the calls in a graph of Dynamo's."""
    calls = [n for n in graph.graph.nodes if n.op == "call_function" and getattr(n.target, "__name__", "") == NAME]
    for node in calls:
        example = node.meta.get("example_value")
        node.target = attention
        if isinstance(example, Tensor):
            node.kwargs = {**node.kwargs, "order": tuple(order_of(example.stride()))}
    if calls:
        graph.recompile()


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
    *,
    order: tuple[int, ...] | None = None,
) -> Tensor:
    """Attention on [batch, heads, length, depth]; other ranks are torch's own. order: of the result's axes in memory, as the
    code behind it expects it."""
    options = {"scale": scale, "enable_gqa": enable_gqa}
    is_learned = dropout_p != 0 and attn_mask is not None and attn_mask.requires_grad
    others = any(x.dim() != 4 for x in (query, key, value)) or peek_interpreter_stack() is not None
    if others or is_learned:
        with sdpa_kernel(SDPBackend.MATH) if dropout_p else nullcontext():
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, **options
            )
    query, key, value, attn_mask = _cast(query, key, value, attn_mask)
    if enable_gqa and key.shape[1] != query.shape[1]:
        key, value = (repeated_heads(x, query.shape[1]) for x in (key, value))
    lead = torch.broadcast_shapes(*(x.shape[:2] for x in (query, key, value)))
    query, key, value = (x.expand(*lead, *x.shape[2:]) for x in (query, key, value))
    if dropout_p:
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        out: Any = _Dropped.apply(query, key, value, attn_mask, is_causal, factor, dropout_p)
    else:
        operator = torch.ops.aten._scaled_dot_product_efficient_attention
        out = operator(query, key, value, attn_mask, True, 0.0, is_causal, scale=scale)[0]
    return out if order is None else in_order(out, order)


class _Dropped(torch.autograd.Function):
    """Attention with dropout of probabilities."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        factor: Any,
        rate: float,
    ) -> Tensor:
        scores = wide_matmul(query, key.mT) * factor
        if causal:
            shown = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~shown, -torch.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
        p = torch.ops.aten._safe_softmax(scores, -1)
        dropped, kept = torch.ops.aten.native_dropout(p, rate, True)
        ctx.save_for_backward(query, key, value, p.to(query.dtype), kept)
        ctx.factor, ctx.share = factor, 0.0 if rate == 1 else 1 / (1 - rate)
        return torch.matmul(dropped.to(query.dtype), value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        query, key, value, p, kept = ctx.saved_tensors
        wide = torch.float64 if p.dtype is torch.float64 else torch.float32
        dropped = (torch.where(kept, p.to(wide), 0) * ctx.share).to(p.dtype)
        dp = torch.where(kept, wide_matmul(grad, value.mT), 0) * ctx.share
        p = p.to(wide)
        ds = (p * (dp - (p * dp).sum(-1, keepdim=True)) * ctx.factor).to(query.dtype)
        return torch.matmul(ds, key), torch.matmul(ds.mT, query), torch.matmul(dropped.mT, grad), None, None, None, None


def _cast(*tensors: Tensor | None) -> list[Any]:
    """Autocast's own conversion of the operands."""
    kind = next(t.device.type for t in tensors if t is not None)
    if not torch.is_autocast_enabled(kind):
        return list(tensors)
    dtype = torch.get_autocast_dtype(kind)
    return [
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype is not torch.float64 else t for t in tensors
    ]
