"""Attention as com.microsoft has it: packed projections, masks of several shapes, key and value caches."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, reshape, transpose
from burn.dialect.dims import Dim, exact_div
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.attention import join_heads, scaled, split_heads
from burn.importers.onnx.ops.image import part
from burn.importers.onnx.ops.vendor import DOMAIN

MASKED = -10000.0
"""What hidden keys' scores are lowered by, where the node does not say."""


def scaled_sides(node: Node, q: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value, float]:
    return scaled(q, k, node.float("scale", 0.0) or None)


def padding_bias(node: Node, mask: ir.Value, batch: Dim, total: Dim, dtype: str) -> ir.Value:
    """A mask as a bias of scores: where rows end [batch], then where they begin [2 * batch], or flags [batch, total],
    [batch, s, total], [batch, 1, s, total]."""
    type_ = type_of(mask)
    if type_.rank == 1:
        key = ops.iota(shape=(1, total), axis=1, dtype=type_.dtype)
        if type_.shape[0] == batch:
            keep = ops.lt(key, reshape(mask, (batch, 1)))
        elif type_.shape[0] == 2 * batch:
            ends, starts = (reshape(part(mask, 0, start, batch), (batch, 1)) for start in (0, batch))
            keep = ops.and_(ops.le(starts, key), ops.lt(key, ends))
        else:
            node.fail(f"a mask {type_} with cumulated lengths is not supported")
    else:
        keep = ops.ne(mask, number(0, type_.dtype))
    first, *rest = type_of(keep).shape
    if len(rest) > 3 or rest[-1] != total:
        node.fail(f"a mask {type_} does not hide some of {total} keys")
    keep = reshape(keep, (first, *(1,) * (3 - len(rest)), *rest))
    hidden = number(node.float("mask_filter_value", MASKED), dtype)
    return ops.select(keep, number(0.0, dtype), hidden)


def combined(a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
    if a is None or b is None:
        return b if a is None else a
    return ops.add(a, b)


@onnx_op("Attention", domain=DOMAIN, ranks=(3, 2, 1))
def attention(node: Node) -> list[ir.Value | None]:
    """One product makes q, k and v of the input; past and present hold keys and values together: [2, b, h, t, d]."""
    x, weight = node.required(0), node.required(1)
    heads = node.int("num_heads")
    batch, _, _ = type_of(x).shape
    width = type_of(weight).shape[1]
    sizes = node.ints("qkv_hidden_sizes", ())
    if not sizes:
        third = exact_div(width, 3)
        if not isinstance(third, int):
            node.fail(f"{width} columns do not split into q, k and v", "qkv_hidden_sizes")
        sizes = (third,) * 3
    if node.int("do_rotary", 0):
        node.fail("is not supported here", "do_rotary")
    projected = ops.dot_general(x, weight, lhs_contract=(2,), rhs_contract=(0,))
    if node.has_input(2):
        projected = ops.add(projected, node.required(2))
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, k, v = (
        split_heads(node, part(projected, 2, start, size), heads, "num_heads")
        for start, size in zip(starts, sizes, strict=True)
    )
    past: Dim = 0
    if node.has_input(4):
        cache = node.required(4)
        past = type_of(cache).shape[3]
        old = [reshape(part(cache, 0, i, 1), type_of(cache).shape[1:]) for i in (0, 1)]
        k, v = (ops.concat([a, b], axis=2) for a, b in zip(old, (k, v), strict=True))
    total, dtype = type_of(k).shape[2], type_of(q).dtype
    mask = padding_bias(node, node.required(3), batch, total, dtype) if node.has_input(3) else None
    q, keys, scale = scaled_sides(node, q, k)
    out = ops.attention(
        q,
        keys,
        v,
        combined(mask, node.input(5)),
        scale=scale,
        causal=node.int("unidirectional", 0) == 1,
        offset=past,
    )
    present = None
    if node.wants(1):
        present = ops.concat([reshape(c, (1, *type_of(c).shape)) for c in (k, v)], axis=0)
    return [join_heads(out), present]


@onnx_op("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: Node) -> list[ir.Value | None]:
    heads = node.int("num_heads")
    q, k, v = _projections(node, heads)
    past: Dim = 0
    if node.has_input(6):
        past = node.type(6).shape[2]
        k, v = ops.concat([node.required(6), k], axis=2), ops.concat([node.required(7), v], axis=2)
    batch, dtype = type_of(q).shape[0], type_of(q).dtype
    mask = None
    if node.has_input(4):
        mask = padding_bias(node, node.required(4), batch, type_of(k).shape[2], dtype)
    causal = node.int("unidirectional", 0) == 1
    bias = combined(mask, node.input(5))
    q, keys, scale = scaled_sides(node, q, k)
    out = ops.attention(q, keys, v, bias, scale=scale, causal=causal, offset=past)
    return [join_heads(out), k, v]


def _projections(node: Node, heads: int) -> list[ir.Value]:
    """q, k and v as [b, heads, s, d], from apart or packed operands, with their part of the bias."""
    query, key, value = node.required(0), node.input(1), node.input(2)
    if type_of(query).rank == 5:  # [b, s, heads, 3, d]
        packed = [_unpacked(query, i) for i in range(3)]
    elif key is not None and type_of(key).rank == 5:  # [b, t, heads, 2, d]
        packed = [split_heads(node, query, heads, "num_heads"), _unpacked(key, 0), _unpacked(key, 1)]
    elif key is not None and value is not None:
        packed = [x if type_of(x).rank == 4 else split_heads(node, x, heads, "num_heads") for x in (query, key, value)]
    else:
        node.fail("needs a key and a value, or packed projections")
    if not node.has_input(3):
        return packed
    bias, start, biased = node.required(3), 0, []
    for index, x in enumerate(packed):
        depth = type_of(x).shape[3]
        if not isinstance(depth, int):
            node.fail(f"the number of features of a head must be known, not {depth}")
        own = reshape(part(bias, 0, start, heads * depth), (heads, 1, depth))
        # keys and values that come already split, [b, heads, t, d], have had their bias
        given = node.input(index)
        biased.append(x if given is not None and type_of(given).rank == 4 else ops.add(x, own))
        start += heads * depth
    return biased


def _unpacked(x: ir.Value, index: int) -> ir.Value:
    """Part `index` of [b, s, heads, parts, d] as [b, heads, s, d]."""
    batch, length, heads, _, depth = type_of(x).shape
    return transpose(reshape(part(x, 3, index, 1), (batch, length, heads, depth)), (0, 2, 1, 3))


@onnx_op("RotaryEmbedding", domain=DOMAIN, ranks=((3, 4), (1, 2), 2, 2))
def rotary_embedding(node: Node) -> ir.Value:
    """Position ids are [b, s], or [1] with the first one's."""
    x, places = node.required(0), node.required(1)
    width = node.type(2).shape[1]
    packed = type_of(x).rank == 3
    if packed:
        heads = node.int("num_heads", 0)
        if not heads:
            depth = exact_div(type_of(x).shape[2], width * 2)
            if not isinstance(depth, int):
                node.fail(f"{type_of(x)} does not split into heads of {width * 2} features", "num_heads")
            heads = depth
        x = split_heads(node, x, heads, "num_heads")
    length = type_of(x).shape[2]
    if type_of(places).rank == 1:
        first = reshape(places, (1, 1))
        places = ops.add(ops.iota(shape=(1, length), axis=1, dtype=type_of(places).dtype), first)
    cos, sin = (ops.gather(node.required(i), places, axis=0) for i in (2, 3))
    out = ops.rotary_embedding(x, cos, sin, interleaved=node.int("interleaved", 0) == 1)
    return join_heads(out) if packed else out


@onnx_op("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(node: Node) -> list[ir.Value]:
    """Attention with a cache, in which each row of the batch may hold a different number of keys.

    seqlens_k [b] is the number of keys a row has with the new ones, less one. New keys follow each row's own old
    ones."""
    heads, groups = node.int("num_heads"), node.int("kv_num_heads")
    q, k, v = _grouped(node, heads, groups)
    batch, _, length, _ = type_of(q).shape
    past = node.type(3).shape[2] if node.has_input(3) else 0
    lengths = ops.add(convert(reshape(node.required(5), (batch,)), "int64"), number(1, "int64"))
    old = ops.max(ops.sub(lengths, dim_value(length)), number(0, "int64"))
    old = ops.min(old, dim_value(past))
    place = reshape(old, (batch, 1))
    if node.int("do_rotary", 0) == 1:
        positions = ops.add(place, ops.iota(shape=(1, length), axis=1))
        cos, sin = (ops.gather(node.required(i), positions, axis=0) for i in (7, 8))
        interleaved = node.int("rotary_interleaved", 0) == 1
        q, k = (ops.rotary_embedding(x, cos, sin, interleaved=interleaved) for x in (q, k))
    if node.has_input(3):
        total = past + length
        j = ops.iota(shape=(1, total), axis=1)
        source = ops.select(ops.lt(j, place), j, ops.add(ops.sub(j, place), dim_value(past)))
        source = reshape(ops.min(source, dim_value(total - 1)), (batch, 1, total, 1))
        held = reshape(ops.lt(j, ops.add(place, dim_value(length))), (batch, 1, total, 1))
        joined = []
        for cache, new in ((node.required(3), k), (node.required(4), v)):
            whole = ops.concat([cache, new], axis=2)
            places = ops.broadcast_to(source, shape=type_of(whole).shape)
            ordered = ops.gather_elements(whole, places, axis=2)
            joined.append(ops.select(held, ordered, number(0.0, type_of(whole).dtype)))
        k, v = joined
    window = node.int("local_window_size", -1)
    q, keys, scale = scaled_sides(node, q, k)
    out = ops.attention(
        q,
        keys,
        v,
        node.input(10),
        ops.add(old, dim_value(length)),
        scale=scale,
        causal=True,
        left=window - 1 if window > 0 else -1,
        softcap=node.float("softcap", 0.0),
    )
    return [join_heads(out), k, v]


def _grouped(node: Node, heads: int, groups: int) -> list[ir.Value]:
    query = node.required(0)
    if node.has_input(1):
        operands = [(query, heads), (node.required(1), groups), (node.required(2), groups)]
    else:  # [b, s, (heads + 2 groups) * d]
        depth = exact_div(type_of(query).shape[2], heads + 2 * groups)
        if depth is None:
            node.fail(f"{type_of(query)} does not split into {heads} + 2 * {groups} heads", "num_heads")
        starts = (0, heads * depth, (heads + groups) * depth)
        counts = (heads, groups, groups)
        operands = [(part(query, 2, s, c * depth), c) for s, c in zip(starts, counts, strict=True)]
    return [split_heads(node, x, count, "num_heads") for x, count in operands]
