"""Grouped-query attention of com.microsoft, with caches in which each row may hold a different number of keys."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, dim_value, number, number_like, part, reshape
from burn.dialect.dims import Dim, decide, dim_max, exact_div
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.attention import join_heads, split_heads
from burn.importers.onnx.ops.vendor import DOMAIN
from burn.importers.onnx.ops.vendor_masks import (
    Softmax,
    Space,
    attended,
    biased_scores,
    likely,
    scaled_sides,
    score_bias,
)

REFUSED = {
    "kv_cache_bit_width": "caches of integers",
    "sliding_window_cache": "caches that drop their oldest keys",
}
"""Attributes of GroupQueryAttention that change what the caches are, and are not supported."""


@onnx_op("GroupQueryAttention", domain=DOMAIN, ranks=(3, 3, 3, 4, 4))
def group_query_attention(node: Node) -> list[ir.Value | None]:
    """seqlens_k [b] is the number of keys a row has with the new ones, less one; total_sequence_length is the largest.

    New keys follow each row's own old ones. The caches that come out are as long as those that came in, or as
    total_sequence_length where that is more. Where all keys are new (a prompt), position ids count on from the first."""
    for attribute, what in REFUSED.items():
        if node.int(attribute, 0):
            node.fail(f"{what} are not supported", attribute)
    for attribute in ("k_quant_type", "v_quant_type"):
        if node.string(attribute, "NONE") != "NONE":
            node.fail("caches of integers are not supported", attribute)
    heads, groups = node.int("num_heads"), node.int("kv_num_heads")
    q, k, v = (_normalised(node, x, i) for i, x in enumerate(grouped(node, heads, groups)))
    batch, _, length, _ = type_of(q).shape
    if node.has_input(3) != node.has_input(4):
        node.fail("past_key and past_value must be given together")
    room: Dim = node.type(3).shape[2] if node.has_input(3) else 0
    total = _total(node, length)
    lengths = ops.add(convert(reshape(node.required(5), (batch,)), "int64"), number(1, "int64"))
    old = ops.max(ops.sub(lengths, dim_value(length)), number(0, "int64"))
    if not node.has_input(3):
        old = ops.full(shape=(batch,), dtype="int64")
    first = reshape(old, (batch, 1))
    q, k = rotated(node, q, k, _positions(node, first, length, total))
    if node.has_input(3):
        k, v = (appended(node.required(i), x, first, dim_max(room, total)) for i, x in ((3, k), (4, v)))
    present = k, v
    if node.has_input(3):
        k, v = (part(x, 2, 0, total) for x in present)
    bias = score_bias(node, 10, Space(batch, length, 0, total))
    q, keys, scale = scaled_sides(node, q, k)
    how = _softmax(node, scale)
    ends = ops.add(old, dim_value(length)) if how.causal else lengths  # behind a prompt's keys there may be padding
    out = attended(q, keys, v, bias, ends, how)
    return [join_heads(out), *present, _scores(node, q, keys, bias, ends, how)]


def _total(node: Node, length: Dim) -> Dim:
    """total_sequence_length as a size; without a cache all keys are new."""
    if not node.has_input(3):
        node.no_effect(6, because="without a cache there are no keys but the new ones")
        return length
    known = node.scalar(6)
    total = known if known is not None else node.read_one(6)
    if isinstance(total, int) and isinstance(length, int) and total < length:
        node.fail(f"total_sequence_length is {total}, less than the {length} new keys")
    if decide(total, ">=", length) is None:
        check_size(total, ">=", length, "total_sequence_length counts the new keys")
    return total


def _softmax(node: Node, scale: float) -> Softmax:
    causal, window = node.int("causal", 1), node.int("local_window_size", -1)
    if causal not in (0, 1):
        node.fail(f"must be 0 or 1, not {causal}", "causal")
    if not causal and window > 0:
        node.fail("a window needs causal attention", "local_window_size")
    sink = node.input(11)
    if sink is None and node.int("smooth_softmax", -1) == 1:
        sink = number(0.0, node.type(0).dtype)
    node.no_effect("smooth_softmax", because="a sink of its own takes its place")
    return Softmax(scale, causal == 1, 0, window - 1 if window > 0 else -1, node.float("softcap", 0.0), sink)


def _scores(
    node: Node, q: ir.Value, k: ir.Value, bias: ir.Value | None, ends: ir.Value, how: Softmax
) -> ir.Value | None:
    """The fourth output: scores before (1) or after (2) the softmax, 0 where a key is not seen."""
    mode = node.int("qk_output", 0)
    if not node.needs_output(3):
        return None
    if mode not in (1, 2):
        node.fail(f"must be 1 or 2 for the fourth output, not {mode}", "qk_output")
    before = biased_scores(q, k, bias, ends, how)
    if mode == 2:
        return likely(before, how)
    hidden = ops.and_(ops.isinf(before), ops.lt(before, number_like(0, before)))
    return ops.select(hidden, number_like(0, before), before)


def _normalised(node: Node, x: ir.Value, index: int) -> ir.Value:
    """Queries or keys, normalised by head if the node has weights for that."""
    epsilon = node.float("qk_norm_epsilon", 1e-6)
    weight = node.input(14 + index) if index < 2 else None
    if node.has_input(14) != node.has_input(15):
        node.fail("q_norm_weight and k_norm_weight must be given together")
    return x if weight is None else ops.rms_norm(x, weight, axis=3, epsilon=epsilon)


def _positions(node: Node, first: ir.Value, length: Dim, total: Dim) -> ir.Value:
    """Where each query stands [b, s]: behind the row's old keys, or as the position ids say."""
    count = ops.iota(shape=(1, length), axis=1)
    if not node.has_input(9) or node.int("do_rotary", 0) != 1:
        node.no_effect(9, because="nothing is rotated")
        return ops.add(first, count)
    ids = convert(node.required(9), "int64")
    counted = ops.add(reshape(part(part(ids, 0, 0, 1), 1, 0, 1), (1, 1)), count)
    prompt = decide(total, "==", length)
    batch = type_of(first).shape[0]
    if prompt is False:
        return ids
    counted = ops.broadcast_to(counted, shape=(batch, length))
    if prompt:
        return counted
    return ops.select(ops.eq(dim_value(total), dim_value(length)), counted, ids)


def rotated(node: Node, q: ir.Value, k: ir.Value, positions: ir.Value, cosines: int = 7) -> list[ir.Value]:
    """Queries and keys, rotated where `do_rotary` says so. cosines: the index of the cosines by position, before the sines."""
    interleaved = node.int("rotary_interleaved", 0) == 1
    if node.int("do_rotary", 0) != 1:
        node.no_effect(cosines, cosines + 1, because="nothing is rotated")
        return [q, k]
    cos, sin = (ops.gather(node.required(i), positions, axis=0) for i in (cosines, cosines + 1))
    return [ops.rotary_embedding(x, cos, sin, interleaved=interleaved) for x in (q, k)]


def appended(cache: ir.Value, new: ir.Value, first: ir.Value, room: Dim) -> ir.Value:
    """A cache [b, g, p, d] in `room` rows, with the new rows [b, g, s, d] from row `first` [b, 1] on, zeros behind them."""
    batch, _, past, _ = type_of(cache).shape
    length, dtype = type_of(new).shape[2], type_of(new).dtype
    j = ops.iota(shape=(1, room), axis=1)
    last = ops.add(first, dim_value(length))
    source = ops.select(ops.lt(j, first), j, ops.add(ops.sub(j, first), dim_value(past)))
    source = reshape(ops.min(source, dim_value(past + length - 1)), (batch, 1, room, 1))
    held = reshape(ops.lt(j, last), (batch, 1, room, 1))
    whole = ops.concat([cache, new], axis=2)
    shape = (*type_of(whole).shape[:2], room, type_of(whole).shape[3])
    ordered = ops.gather_elements(whole, ops.broadcast_to(source, shape=shape), axis=2)
    return ops.select(held, ordered, number(0.0, dtype))


def grouped(node: Node, heads: int, groups: int) -> list[ir.Value]:
    query = node.required(0)
    if node.has_input(1) != node.has_input(2):
        node.fail("key and value must be given together")
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
