"""Attention: torch's one function, and the kernels by which AOTAutograd replaces it."""

from __future__ import annotations

import math
from typing import Any

import torch

from burn.dialect import ops
from burn.dialect.attention import bias, has_kernels, heads_per_group, probabilities, scores, visible
from burn.dialect.attention_gradient import LOG2E
from burn.dialect.compose import broadcast_to, convert, dim_value, number, number_like, reshape, transpose
from burn.dialect.dims import Dim, exact_div, product
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
    q, factor = _scaled(q, _scale(node, q, scale))
    lead = node.shape[:-2]
    q, k, v = (_four(x, lead, enable_gqa) for x in (q, k, v))
    if mask is not None:
        mask = _mask(mask, lead, q)
    options = {"scale": factor, "causal": causal}
    if 0 < dropout < 1:
        key = node.importer.random_key()
        out = ops.attention(q, k, v, mask, None, key, rate=float(dropout), **options)
    else:
        out = ops.attention(q, k, v, mask, **options)
        if dropout:  # a probability of one
            out = ops.mul(out, number_like(0.0, out))
    return reshape(out, node.shape)


def _scale(node: Node, q: ir.Value, scale: Any) -> float | ir.Value:
    """The factor of scores: a number, or a scalar if it depends on sizes or on a number that varies."""
    depth = type_of(q).shape[-1]
    if scale is None and isinstance(depth, int):
        return 1 / math.sqrt(depth)
    if isinstance(scale, (int, float)):
        return float(scale)
    return ops.rsqrt(node.scalar(depth, type_of(q).dtype)) if scale is None else node.scalar(scale, type_of(q).dtype)


def _scaled(q: ir.Value, factor: float | ir.Value) -> tuple[ir.Value, float]:
    """The queries, and the scale that is left to `ops.attention`, which takes numbers."""
    return (q, factor) if isinstance(factor, float) else (ops.mul(q, factor), 1.0)


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


def _typed(mask: ir.Value, q: ir.Value) -> ir.Value:
    """Added masks are of q's element type."""
    return mask if type_of(mask).dtype == "bool" else convert(mask, type_of(q).dtype)


def _mask(mask: ir.Value, lead: tuple[Dim, ...], q: ir.Value) -> ir.Value:
    """A mask that broadcasts to [batch, heads, s, t]; added ones in q's element type."""
    type_ = type_of(mask)
    mask = _typed(mask, q)
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
    """[b, h, s, d] -> the output, and log(sum(exp(scores))) of every query [b, h, s]; query heads may share a key head."""
    if dropout:
        node.fail("dropout inside of attention is not supported")
    k, v = (_fitted(q, x) for x in (k, v))
    q, factor = _scaled(q, _scale(node, q, scale))
    mask = None if attn_mask is None else _typed(attn_mask, q)
    out = ops.attention(q, k, v, mask, scale=factor, causal=causal)
    if not node.uses(1):
        return [out, None]
    s = convert(_biased(q, factor, k, mask, causal), node.result_type(1).dtype)
    top = ops.reduce(s, kind="max", axes=(3,), keepdims=True)
    top = ops.select(ops.eq(top, number_like(float("-inf"), top)), number_like(0, top), top)
    total = ops.reduce(ops.exp(ops.sub(s, top)), kind="sum", axes=(3,))
    return [out, ops.add(ops.log(total), reshape(top, type_of(total).shape))]


def _fitted(q: ir.Value, x: ir.Value) -> ir.Value:
    """Keys or values under q's batch, which the kernel takes to be equal; torch may know it as another symbol. Where heads
    are symbols, so that nothing is known of how they share, every query head gets keys of its own."""
    (batch, heads, *_), (_, own, *rest) = type_of(q).shape, type_of(x).shape
    x = reshape(x, (batch, own, *rest))
    return x if heads == own or exact_div(heads, own) is not None else ops.gather(x, _shared_head(heads, own), axis=1)


def _shared_head(heads: Dim, own: Dim) -> ir.Value:
    """The key head of every query head: [heads], int64."""
    index = ops.mul(ops.iota(shape=(heads,), axis=0), dim_value(own))
    return ops.floordiv(index, dim_value(heads))


def _gathered_gradient(grad: ir.Value, shape: tuple[Dim, ...]) -> ir.Value:
    """The gradient of `_fitted`'s operand, of that shape, from that of its result."""
    heads, own = type_of(grad).shape[1], shape[1]
    if heads == own:
        return grad
    key = ops.eq(reshape(_shared_head(heads, own), (heads, 1)), ops.iota(shape=(1, own), axis=1))
    chosen = convert(key, type_of(grad).dtype)
    return transpose(ops.dot_general(chosen, grad, lhs_contract=(0,), rhs_contract=(1,)), (1, 0, 2, 3))


def _grouped(x: ir.Value, keys: ir.Value) -> ir.Value:
    """A tensor of the queries, [b, h, s, n], as rows of their g key heads: [b, g, h / g * s, n]."""
    batch, heads, length, depth = type_of(x).shape
    groups = type_of(keys).shape[1]
    return reshape(x, (batch, groups, heads_per_group(heads, groups) * length, depth))


def _biased(q: ir.Value, scale: float, k: ir.Value, mask: ir.Value | None, causal: bool) -> ir.Value:
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
    return _written_out(node, grad, q, k, v, out, causal, attn_mask, scale)[:3]


def _written_out(
    node: Node,
    grad: ir.Value,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    out: ir.Value,
    causal: bool,
    attn_mask: ir.Value | None,
    scale: float | None,
) -> list[ir.Value]:
    """The gradients of q, k, v and the scores [b, h, s, t] (arXiv:2205.14135, appendix B.2): with p the probabilities,
    dp = grad v^T, ds = p * (dp - sum(grad * out))."""
    shapes = [type_of(x).shape for x in (k, v)]
    k, v = (_fitted(q, x) for x in (k, v))
    factor = _scale(node, q, scale)
    mask = None if attn_mask is None else _typed(attn_mask, q)
    p = _grouped(probabilities(_biased(*_scaled(q, factor), k, mask, causal)), k)
    row = _grouped(ops.reduce(ops.mul(grad, out), kind="sum", axes=(3,), keepdims=True), k)
    shape = type_of(q).shape
    grad, q = _grouped(grad, k), _grouped(q, k)
    axes = {"lhs_batch": (0, 1), "rhs_batch": (0, 1)}
    dv = ops.dot_general(p, grad, lhs_contract=(2,), rhs_contract=(2,), **axes)
    dp = ops.dot_general(grad, v, lhs_contract=(3,), rhs_contract=(3,), **axes)
    dx = ops.mul(p, ops.sub(dp, row))
    ds = ops.mul(dx, node.scalar(factor, type_of(q).dtype))
    dq = ops.dot_general(ds, k, lhs_contract=(3,), rhs_contract=(2,), **axes)
    dk = ops.dot_general(ds, q, lhs_contract=(2,), rhs_contract=(2,), **axes)
    gradients = [_gathered_gradient(g, s) for g, s in zip((dk, dv), shapes, strict=True)]
    return [reshape(dq, shape), *gradients, reshape(dx, (*shape[:3], type_of(k).shape[2]))]


# ---- the kernels that torch has for GPUs --------------------------------------------------------------------------------
def _fused(
    node: Node,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    results: int,
) -> list[Any]:
    """The output, log(sum(exp(scores))) of every query, and further results that only torch's own backward kernels use."""
    if dropout:
        node.fail("dropout inside of attention is not supported in this form", 'use torch.compile(backend="burn")')
    k, v = (_fitted(q, x) for x in (k, v))
    q, factor = _scaled(q, _scale(node, q, scale))
    mask = None if mask is None else _typed(mask, q)
    nothing = [_zeros(node, i) for i in range(2, results)]
    if not node.uses(1):
        return [ops.attention(q, k, v, mask, scale=factor, causal=causal), None, *nothing]
    out, norms = ops.attention_forward(q, k, v, mask, None, scale=factor, causal=causal)
    norms = ops.mul(norms, number_like(1 / LOG2E, norms))
    want = node.result_type(1).shape  # torch's kernels pad the queries, or add an axis
    have = type_of(norms).shape
    if len(want) == 3 and want[2] != have[2]:
        norms = ops.pad(norms, number_like(0, norms), low=(0, 0, 0), high=(0, 0, want[2] - have[2]))
    return [out, reshape(norms, want), *nothing]


def _zeros(node: Node, index: int) -> ir.Value | None:
    """For a result that is saved for the backward pass, and that burn does not use there."""
    if not isinstance(node.meta[index], torch.Tensor) or not node.uses(index):
        return None
    type_ = node.result_type(index)
    return ops.broadcast_to(number(0, type_.dtype), shape=type_.shape)


def _summed_to(x: ir.Value, shape: tuple[Dim, ...]) -> ir.Value:
    """The gradient of a tensor of that shape that was broadcast to x's."""
    have = type_of(x).shape
    lead = len(have) - len(shape)
    axes = tuple(a for a, d in enumerate(have) if a < lead or (shape[a - lead] == 1 and d != 1))
    return reshape(ops.reduce(x, kind="sum", axes=axes) if axes else x, shape)


def _fused_backward(
    node: Node,
    grad: ir.Value,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    out: ir.Value,
    logsumexp: ir.Value,
    dropout: float,
    causal: bool,
    scale: float | None,
    of_mask: bool = False,
) -> list[Any]:
    """The gradients of q, k, v, and of the mask if `of_mask`."""
    if dropout:
        node.fail("dropout inside of attention is not supported in this form", 'use torch.compile(backend="burn")')
    if not has_kernels(type_of(q), type_of(v), None):
        dq, dk, dv, dx = _written_out(node, grad, q, k, v, out, causal, mask, scale)
        return [dq, dk, dv, _summed_to(dx, node.result_type(3).shape) if of_mask else None]
    shapes = [type_of(x).shape for x in (k, v)]
    k, v = (_fitted(q, x) for x in (k, v))
    scaled, factor = _scaled(q, _scale(node, q, scale))
    shape = type_of(q).shape[:3]
    norms = logsumexp
    if type_of(norms).rank == 3 and type_of(norms).shape[2] != shape[2]:
        norms = ops.slice(norms, starts=(0, 0, 0), sizes=shape, steps=(1, 1, 1))
    norms = ops.mul(reshape(norms, shape), number_like(LOG2E, norms))
    mask = None if mask is None else _typed(mask, q)
    options = {"scale": factor, "causal": causal, "mask_gradient": of_mask}
    dq, dk, dv, *rest = ops.attention_backward(scaled, k, v, mask, None, None, out, norms, grad, **options)
    if scaled is not q:
        dq = ops.mul(dq, node.scalar(_scale(node, q, scale), type_of(q).dtype))
    of_operands = [dq, *(_gathered_gradient(g, s) for g, s in zip((dk, dv), shapes, strict=True))]
    return [*of_operands, _summed_to(rest[0], node.result_type(3).shape) if of_mask else None]


@aten("_scaled_dot_product_flash_attention.default")
def cuda_flash_attention(
    node: Node,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> list[Any]:
    """[b, h, s, d] -> the output, log(sum(exp(scores))) of every query [b, h, s], and seven results for torch's own kernels."""
    results = _fused(node, q, k, v, None, dropout, causal, scale, 9)
    results[4:6] = [type_of(x).shape[2] for x in (q, k)]
    return results


@aten("_scaled_dot_product_flash_attention_backward.default")
def cuda_flash_attention_backward(
    node: Node,
    grad: ir.Value,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    out: ir.Value,
    logsumexp: ir.Value,
    _starts_q: Any,
    _starts_k: Any,
    _most_q: Any,
    _most_k: Any,
    dropout: float,
    causal: bool,
    _seed: Any,
    _offset: Any,
    *,
    scale: float | None = None,
) -> list[Any]:
    return _fused_backward(node, grad, q, k, v, None, out, logsumexp, dropout, causal, scale)[:3]


@aten("_scaled_dot_product_efficient_attention.default")
def efficient_attention(
    node: Node,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    _norms: bool,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
) -> list[Any]:
    return _fused(node, q, k, v, mask, dropout, causal, scale, 4)


@aten("_scaled_dot_product_efficient_attention_backward.default")
def efficient_attention_backward(
    node: Node,
    grad: ir.Value,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    out: ir.Value,
    logsumexp: ir.Value,
    _seed: Any,
    _offset: Any,
    dropout: float,
    wanted: list[bool],
    causal: bool = False,
    *,
    scale: float | None = None,
) -> list[Any]:
    if mask is not None and type_of(mask).shape == (0,):  # an undefined tensor
        mask = None
    of_mask = wanted[3] and mask is not None
    return _fused_backward(node, grad, q, k, v, mask, out, logsumexp, dropout, causal, scale, of_mask)


@aten("_scaled_dot_product_cudnn_attention.default")
def cudnn_attention(
    node: Node,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    _norms: bool,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> list[Any]:
    results = _fused(node, q, k, v, mask, dropout, causal, scale, 9)
    results[4:6] = [type_of(x).shape[2] for x in (q, k)]
    return results


@aten("_scaled_dot_product_cudnn_attention_backward.default")
def cudnn_attention_backward(
    node: Node,
    grad: ir.Value,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    out: ir.Value,
    logsumexp: ir.Value,
    _seed: Any,
    _offset: Any,
    mask: ir.Value | None,
    _starts_q: Any,
    _starts_k: Any,
    _most_q: Any,
    _most_k: Any,
    dropout: float,
    causal: bool,
    *,
    scale: float | None = None,
) -> list[Any]:
    return _fused_backward(node, grad, q, k, v, mask, out, logsumexp, dropout, causal, scale)[:3]
