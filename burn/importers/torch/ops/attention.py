"""Attention: torch's one function, and the kernels that AOTAutograd names in its place."""

from __future__ import annotations

import math
from typing import Any

from burn.dialect import ops
from burn.dialect.attention import bias, probabilities, scores, visible
from burn.dialect.compose import broadcast_to, convert, number, number_like, reshape
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten


@aten("scaled_dot_product_attention.default")
def attention(
    node: Node,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> ir.Value:
    """q [.., s, d], k [.., t, d], v [.., t, e]; query head i looks at key head i // (heads / key heads).

    `causal` aligns the first query with the first key (torch's rule, also where s and t differ)."""
    if dropout:
        node.fail("dropout inside of attention is not supported; call module.eval(), or set dropout to 0")
    factor = _scale(node, q, scale)
    lead = node.shape[:-2]
    q, k, v = (_four(x, lead, enable_gqa) for x in (q, k, v))
    if mask is not None:
        mask = _mask(mask, lead, q)
    out = ops.attention(q, k, v, mask, scale=factor, causal=causal)
    return reshape(out, node.shape)


def _scale(node: Node, q: ir.Value, scale: Any) -> float:
    depth = type_of(q).shape[-1]
    if scale is None and isinstance(depth, int):
        return 1 / math.sqrt(depth)
    if not isinstance(scale, (int, float)):
        node.fail("the scale must be a number that is known when the program is exported")
    return float(scale)


def _four(x: ir.Value, lead: tuple[Dim, ...], shared: bool) -> ir.Value:
    """[batch, heads, length, depth], whatever axes lead; those that broadcast are written out."""
    shape = type_of(x).shape
    own = shape[:-2]
    if len(lead) == 2 and shared and len(own) == 2:
        return broadcast_to(x, (lead[0], *shape[1:]))
    x = broadcast_to(x, (*lead, *shape[-2:]))
    if len(lead) == 2:
        return x
    batch, heads = (product(lead[:-1]), lead[-1]) if lead else (1, 1)
    return reshape(x, (batch, heads, *shape[-2:]))


def _mask(mask: ir.Value, lead: tuple[Dim, ...], q: ir.Value) -> ir.Value:
    """A mask that broadcasts to [batch, heads, s, t]; added ones in q's element type."""
    type_ = type_of(mask)
    if type_.dtype != "bool":
        mask = convert(mask, type_of(q).dtype)
    if len(lead) != 2 and type_.rank > 2:
        batch, heads = (product(lead[:-1]), lead[-1]) if lead else (1, 1)
        mask = reshape(broadcast_to(mask, (*lead, *type_.shape[-2:])), (batch, heads, *type_.shape[-2:]))
    return mask


# ---- the CPU's flash kernel, which also gives what its gradient needs ---------------------------------------------------
@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    node: Node,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: ir.Value | None = None,
    scale: float | None = None,
) -> list[Any]:
    """[b, h, s, d] -> the output, and log(sum(exp(scores))) of every query [b, h, s]."""
    if dropout:
        node.fail("dropout inside of attention is not supported")
    k, v = (_heads_of(q, x) for x in (k, v))
    factor = _scale(node, q, scale)
    mask = (
        attn_mask if attn_mask is None or type_of(attn_mask).dtype == "bool" else convert(attn_mask, type_of(q).dtype)
    )
    out = ops.attention(q, k, v, mask, scale=factor, causal=causal)
    if not node.uses(1):
        return [out, None]
    s = convert(_biased(q, k, mask, causal, factor), node.result_type(1).dtype)
    top = ops.reduce(s, kind="max", axes=(3,), keepdims=True)
    top = ops.select(ops.eq(top, number_like(float("-inf"), top)), number_like(0, top), top)
    total = ops.reduce(ops.exp(ops.sub(s, top)), kind="sum", axes=(3,))
    return [out, ops.add(ops.log(total), reshape(top, type_of(total).shape))]


def _heads_of(q: ir.Value, x: ir.Value) -> ir.Value:
    """Keys or values under q's batch and heads, which the kernel takes to be equal; torch may know them as symbols only."""
    return reshape(x, (*type_of(q).shape[:2], *type_of(x).shape[2:]))


def _biased(q: ir.Value, k: ir.Value, mask: ir.Value | None, causal: bool, scale: float) -> ir.Value:
    raw = scores(q, k, scale)
    return bias(raw, mask, visible(type_of(raw).shape, None, causal, 0, -1, -1))


@aten("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    node: Node,
    grad: ir.Value,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    out: ir.Value,
    logsumexp: ir.Value,
    dropout: float,
    causal: bool,
    *,
    attn_mask: ir.Value | None = None,
    scale: float | None = None,
) -> list[ir.Value]:
    """The gradients of q, k and v (arXiv:2205.14135, appendix B.2): with p the probabilities, dp = grad v^T,
    ds = p * (dp - sum(grad * out))."""
    k, v = (_heads_of(q, x) for x in (k, v))
    factor = _scale(node, q, scale)
    mask = (
        attn_mask if attn_mask is None or type_of(attn_mask).dtype == "bool" else convert(attn_mask, type_of(q).dtype)
    )
    p = probabilities(_biased(q, k, mask, causal, factor))
    axes = {"lhs_batch": (0, 1), "rhs_batch": (0, 1)}
    dv = ops.dot_general(p, grad, lhs_contract=(2,), rhs_contract=(2,), **axes)
    dp = ops.dot_general(grad, v, lhs_contract=(3,), rhs_contract=(3,), **axes)
    row = ops.reduce(ops.mul(grad, out), kind="sum", axes=(3,), keepdims=True)
    ds = ops.mul(ops.mul(p, ops.sub(dp, row)), number(factor, type_of(q).dtype))
    dq = ops.dot_general(ds, k, lhs_contract=(3,), rhs_contract=(2,), **axes)
    dk = ops.dot_general(ds, q, lhs_contract=(2,), rhs_contract=(2,), **axes)
    return [dq, dk, dv]
