"""Attention of com.microsoft: queries, keys and values from one matmul, or as separate operands.

Grouped and sparse attention are in vendor_grouped.py, rotary embedding is in vendor_rotary.py.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import number_like, part, reshape
from burn.dialect.dims import Dim, exact_div
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.attention import join_heads, split_heads
from burn.importers.onnx.ops.vendor import DOMAIN
from burn.importers.onnx.ops.vendor_masks import (
    Softmax,
    Space,
    agree,
    attended,
    biased_scores,
    combined,
    grown,
    packed_heads,
    padding_bias,
    scaled_sides,
    score_bias,
)

LOWEST = -3.4028234663852886e38
"""The lowest finite float32."""


@onnx_op("Attention", domain=DOMAIN, ranks=(3, 2, 1))
def attention(node: Node) -> list[ir.Value | None]:
    """One matmul makes q, k and v of the input; past and present hold keys and values together: [2, b, h, t, d]."""
    x, weight = node.required(0), node.required(1)
    projected = ops.dot_general(x, weight, lhs_contract=(2,), rhs_contract=(0,))
    if node.has_input(2):
        projected = ops.add(projected, node.required(2))
    if node.int("do_rotary", 0):
        node.fail("is not supported here", "do_rotary")
    if node.int("past_present_share_buffer", 0):
        node.fail("a cache that the caller and the node share is not supported", "past_present_share_buffer")
    node.no_effect("rotary_embedding_dim", because="nothing is rotated")
    return self_attention(node, projected, mask=3, past=4, extra=5)


def self_attention(node: Node, projected: ir.Value, mask: int, past: int, extra: int | None) -> list[ir.Value | None]:
    """Attention of queries, keys and values side by side [b, s, q + k + v]; the numbers are indices of operands."""
    batch, length, width = type_of(projected).shape
    heads, sizes = node.int("num_heads"), node.ints("qkv_hidden_sizes", ())
    if not sizes:
        third = exact_div(width, 3)
        if not isinstance(third, int):
            node.fail(f"{width} columns do not split into q, k and v", "qkv_hidden_sizes")
        sizes = (third,) * 3
    if len(sizes) != 3 or sum(sizes) != width:
        node.fail(f"{list(sizes)} are not three sizes that add up to {width}", "qkv_hidden_sizes")
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, k, v = (
        split_heads(node, part(projected, 2, start, size), heads, "num_heads")
        for start, size in zip(starts, sizes, strict=True)
    )
    old: Dim = 0
    if node.has_input(past):
        cache = node.required(past)
        old = type_of(cache).shape[3]
        caches = [reshape(part(cache, 0, i, 1), type_of(cache).shape[1:]) for i in (0, 1)]
        k, v = (ops.concat([a, b], axis=2) for a, b in zip(caches, (k, v), strict=True))
    space = Space(batch, length, old, type_of(k).shape[2])
    flags = padding_bias(node, node.required(mask), space, type_of(q).dtype) if node.has_input(mask) else None
    node.no_effect("mask_filter_value", because="there is no mask")
    bias = combined(flags, None if extra is None else score_bias(node, extra, space))
    q, keys, scale = scaled_sides(node, q, k)
    out = attended(q, keys, v, bias, None, Softmax(scale, node.int("unidirectional", 0) == 1, old))
    present = None
    if node.needs_output(1):
        present = ops.concat([reshape(c, (1, *type_of(c).shape)) for c in (k, v)], axis=0)
    return [join_heads(out), present]


@onnx_op("MultiHeadAttention", domain=DOMAIN, ranks=((3, 5), (3, 4, 5), (3, 4), 1, (1, 2, 3), 4, 4, 4))
def multi_head_attention(node: Node) -> list[ir.Value | None]:
    """With `past_sequence_length` the cache has room for more keys than it holds, and keeps its size."""
    heads = node.int("num_heads")
    q, k, v = _projections(node, heads)
    if node.has_input(6) != node.has_input(7):
        node.fail("past_key and past_value must be given together")
    old: Dim = 0
    present = k, v
    if node.has_input(8):
        if not node.has_input(6):
            node.fail("past_sequence_length needs a cache")
        old = node.read_one(8)
        (whole_k, k), (whole_v, v) = grown(node.required(6), k, old), grown(node.required(7), v, old)
        present = whole_k, whole_v
    elif node.has_input(6):
        old = node.type(6).shape[2]
        present = k, v = ops.concat([node.required(6), k], axis=2), ops.concat([node.required(7), v], axis=2)
    space = Space(type_of(q).shape[0], type_of(q).shape[2], old, type_of(k).shape[2])
    flags = padding_bias(node, node.required(4), space, type_of(q).dtype) if node.has_input(4) else None
    node.no_effect("mask_filter_value", because="there is no mask")
    bias = combined(flags, score_bias(node, 5, space))
    q, keys, scale = scaled_sides(node, q, k)
    how = Softmax(scale, node.int("unidirectional", 0) == 1, old)
    if how.causal:  # each runtime aligns queries with another number of keys in its own way
        agree(node, space.total, old + space.length, "the number of keys of unidirectional attention")
    out = attended(q, keys, v, bias, None, how)
    seen = None
    if node.needs_output(3):  # keys that are not seen have the lowest finite score
        seen = biased_scores(q, keys, bias, None, how)
        seen = ops.max(seen, number_like(LOWEST, seen))
    return [join_heads(out), *present, seen]


def _projections(node: Node, heads: int) -> list[ir.Value]:
    """q, k and v as [b, heads, s, d], from apart or packed operands, with their part of the bias."""
    query, key, value = node.required(0), node.input(1), node.input(2)
    given: list[ir.Value | None] = [query, key, value]
    if type_of(query).rank == 5:  # [b, s, heads, 3, d]
        if key is not None or value is not None:
            node.fail("packed queries, keys and values leave no room for others")
        packed, given = [packed_heads(query, i) for i in range(3)], [None] * 3
    elif key is not None and type_of(key).rank == 5:  # [b, t, heads, 2, d]
        if value is not None:
            node.fail("packed keys and values leave no room for other values")
        packed = [split_heads(node, query, heads, "num_heads"), packed_heads(key, 0), packed_heads(key, 1)]
        given = [query, None, None]
    elif key is not None and value is not None:
        packed = [x if type_of(x).rank == 4 else split_heads(node, x, heads, "num_heads") for x in (query, key, value)]
    else:
        node.fail("needs a key and a value, or packed projections")
    if not node.has_input(3):
        return packed
    bias, start, biased = node.required(3), 0, []
    for x, operand in zip(packed, given, strict=True):
        depth = type_of(x).shape[3]
        if not isinstance(depth, int):
            node.fail(f"the number of features of a head must be known, not {depth}")
        own = reshape(part(bias, 0, start, heads * depth), (heads, 1, depth))
        # keys and values that come already split, [b, heads, t, d], have had their bias
        biased.append(x if operand is not None and type_of(operand).rank == 4 else ops.add(x, own))
        start += heads * depth
    return biased


@onnx_op("QAttention", domain=DOMAIN, ranks=(3, 2, 1))
def qattention(node: Node) -> list[ir.Value | None]:
    """`Attention` of a quantised input and weight: ops after their matmul compute in floats."""
    if node.int("do_rotary", 0):
        node.fail("is not supported here", "do_rotary")
    if node.int("past_present_share_buffer", 0):
        node.fail("a cache that the caller and the node share is not supported", "past_present_share_buffer")
    dtype = node.type(3).dtype
    x = ops.dequantize(node.required(0), _single(node, 3), _single(node, 6), dtype=dtype, axis=0)
    weight = ops.dequantize(node.required(1), node.required(4), node.input(7), dtype=dtype, axis=1)
    projected = ops.dot_general(x, weight, lhs_contract=(2,), rhs_contract=(0,))
    return self_attention(node, ops.add(projected, node.required(2)), mask=5, past=8, extra=None)


def _single(node: Node, index: int) -> ir.Value | None:
    """A scale or a zero point of the whole tensor, [] or [1], as a scalar."""
    return reshape(node.required(index), ()) if node.has_input(index) else None


@onnx_op("DecoderMaskedMultiHeadAttention", domain=DOMAIN, ranks=(3, (3, 4), (3, 4), 2, 4, 4, 4, 1))
def decoder_masked_attention(node: Node) -> list[ir.Value | None]:
    """Attention of one new token, with a cache of keys and values of its own, or with those of an encoder [b, h, t, d]."""
    heads, query = node.int("num_heads"), node.required(0)
    node.no_effect(8, because="beams are followed by cache_indirection, which is refused")
    crossed = node.has_input(1) and node.type(1).rank == 4
    if node.has_input(1) and node.has_input(2):
        projections = [query, node.required(1), node.required(2)]
    elif node.has_input(1) or node.has_input(2):
        node.fail("key and value must be given together")
    else:
        third = exact_div(type_of(query).shape[2], 3)
        if third is None:
            node.fail(f"{type_of(query)} does not split into queries, keys and values")
        projections = [part(query, 2, i * third, third) for i in range(3)]
    if node.has_input(10):
        projections = _biased(node, projections, node.required(10))
    q, k, v = (x if type_of(x).rank == 4 else split_heads(node, x, heads, "num_heads") for x in projections)
    shared = node.int("past_present_share_buffer", 0) == 1
    old: Dim = 0
    present: tuple[ir.Value, ir.Value] = k, v
    if crossed:
        if node.has_input(5) or node.has_input(6):
            node.fail("keys of an encoder leave no room for a cache")
    elif node.has_input(5) != node.has_input(6):
        node.fail("past_key and past_value must be given together")
    elif shared:
        if not node.has_input(5) or not node.has_input(7):
            node.fail("needs a cache and past_sequence_length", "past_present_share_buffer")
        old = node.read_one(7)
        (whole_k, k), (whole_v, v) = grown(node.required(5), k, old), grown(node.required(6), v, old)
        present = whole_k, whole_v
    elif node.has_input(5):
        old = node.type(5).shape[2]
        present = k, v = ops.concat([node.required(5), k], axis=2), ops.concat([node.required(6), v], axis=2)
    if crossed or not shared:
        node.no_effect(7, because="the cache is full")
    space = Space(type_of(q).shape[0], type_of(q).shape[2], old, type_of(k).shape[2])
    flags = padding_bias(node, node.required(3), space, type_of(q).dtype) if node.has_input(3) else None
    node.no_effect("mask_filter_value", because="there is no mask")
    bias = combined(flags, score_bias(node, 4, space))
    q, keys, scale = scaled_sides(node, q, k)
    how = Softmax(scale, False, 0)
    node.no_effect("output_qk", because="the fourth output is made where it is named")
    seen = biased_scores(q, keys, bias, None, how) if node.needs_output(3) else None
    return [join_heads(attended(q, keys, v, bias, None, how)), *present, seen]


def _biased(node: Node, projections: list[ir.Value], bias: ir.Value) -> list[ir.Value]:
    """Queries, keys and values [b, s, width] with their part of a bias; those of an encoder have had theirs."""
    result, start = [], 0
    for x in projections:
        width = type_of(x).shape[-1]
        if type_of(x).rank == 3:
            result.append(ops.add(x, part(bias, 0, start, width)))
            start = start + width
        else:
            result.append(x)
    return result
