"""Random cases of com.microsoft's attention and rotary embedding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.importers.vendor.case import Array, Case, Draw, draws
from tests.importers.vendor.references import grouped_attention, sparse_attention

FLOAT = TensorProto.FLOAT


def _mask(d: Draw, batch: int, length: int, past: int, total: int, kinds: tuple[str, ...]) -> Array | None:
    kind = d.pick(*kinds)
    if kind == "ends":
        return d.ints(1, total + 1, batch)
    if kind == "ends and starts":
        ends = d.ints(1, total + 1, batch)
        return np.concatenate([ends, ends * d.ints(0, 2, batch) // 2]).astype(np.int32)
    if kind == "cumulated":
        return np.concatenate([d.ints(1, total + 1, batch), np.zeros(2 * batch + 2, np.int32)])
    shapes = {
        "flags": (batch, total),
        "rows": (batch, length, total),
        "square": (batch, 1, total + 2, total + 2),
    }
    if kind not in shapes:
        return None
    flags = d.ints(0, 2, *shapes[kind])
    flags[..., 0] = 1
    return flags


def _bias(d: Draw, batch: int, heads: int, length: int, total: int) -> Array | None:
    return d.maybe(d.f(d.pick(1, batch), d.pick(1, heads), length, total))


OPEN = {0: (0, 1), 3: (0, 1, 2), 4: (1, 3), 5: (0, 2, 3)}


@draws("Attention")
def attention(d: Draw) -> Case:
    batch, length, heads, depth, width = (
        d.size(1, 2, 3),
        d.size(1, 3, 5),
        d.size(1, 2, 3),
        d.size(2, 4, 5),
        d.size(3, 8),
    )
    past = d.pick(0, 0, 2, 3)
    values = d.pick(depth, depth, 3) if not past else depth
    sizes = [heads * depth, heads * depth, heads * values]
    total = past + length
    mask = _mask(d, batch, length, past, total, ("", "ends", "ends and starts", "flags", "rows"))
    attributes = {
        "num_heads": heads,
        "unidirectional": d.pick(None, 0, 1),
        "scale": d.pick(None, None, 0.3),
        "mask_filter_value": d.pick(None, None, -50.0),
        "do_rotary": d.pick(None, 0),
        "past_present_share_buffer": d.pick(None, 0),
        "rotary_embedding_dim": d.pick(None, 0),
        "qkv_hidden_sizes": sizes if values != depth or d.flag() else None,
    }
    operands: list[Any] = [
        d.f(batch, length, width),
        d.f(width, sum(sizes)),
        d.pick(d.f(sum(sizes)), None),
        mask,
        d.f(2, batch, heads, past, depth) if past else None,
        None if past else _bias(d, batch, heads, length, total),
    ]
    outputs = 2 if past else [True, values == depth and d.flag()]
    instead = {2: np.zeros(sum(sizes), np.float32)} if operands[2] is None else {}
    return Case("Attention", operands, attributes, outputs, d.pick((), (1, 2)), instead=instead, open=OPEN)


@draws("MultiHeadAttention")
def multi_head_attention(d: Draw) -> Case:
    batch, length, heads, depth = d.size(1, 2), d.size(1, 3, 5), d.size(1, 2, 3), d.size(2, 4, 5)
    cross = d.pick("self", "self", "cross", "split")
    keys = d.size(1, 4, 7) if cross != "self" else length
    past = d.pick(0, 2, 3) if cross == "self" else 0
    values = d.pick(depth, 3) if cross != "split" and not past else depth
    room = d.pick(None, past + keys, past + keys + 2) if past else None
    total = past + keys
    query = d.f(batch, length, heads * depth)
    if cross == "split":
        key, value = d.f(batch, heads, keys, depth), d.f(batch, heads, keys, values)
        bias = None
    else:
        key, value = d.f(batch, keys, heads * depth), d.f(batch, keys, heads * values)
        bias = d.maybe(d.f(heads * (depth * 2 + values)))
    cached = room or past
    operands: list[Any] = [
        query,
        key,
        value,
        bias,
        _mask(d, batch, length, past, total, ("", "", "ends", "cumulated", "flags", "rows")),
        _bias(d, batch, heads, length, total),
        d.f(batch, heads, cached, depth) if past else None,
        d.f(batch, heads, cached, values) if past else None,
        np.array([past], np.int32) if room else None,
    ]
    attributes = {
        "num_heads": heads,
        "unidirectional": d.pick(None, 0, 1) if keys == length else d.pick(None, 0),
        "scale": d.pick(None, None, 0.3),
        "mask_filter_value": d.pick(None, None, -50.0),
    }
    outputs = [True, past > 0, past > 0, d.pick(False, False, True)]
    constant = (8,) if d.flag() else ()
    axes = (0, 2) if cross == "split" else (0, 1)
    free = {0: (0, 1), 1: axes, 2: axes, 4: (0, 1, 2), 5: (0, 2, 3), 6: (0, 2), 7: (0, 2)}
    return Case("MultiHeadAttention", operands, attributes, outputs, constant, open=free, result_types={3: FLOAT})


@draws("RotaryEmbedding")
def rotary_embedding(d: Draw) -> Case:
    batch, length, heads, depth, room = d.size(1, 2), d.size(1, 3), d.size(1, 2, 3), d.size(4, 6, 8), 9
    turned = d.pick(depth, depth, depth - 2)
    packed = d.flag()
    x = d.f(batch, length, heads * depth) if packed else d.f(batch, heads, length, depth)
    positions = d.pick(d.ints(0, room, batch, length, dtype=np.int64), np.array([d.pick(0, 4)]))
    attributes = {
        "num_heads": heads if turned != depth or d.flag() else None,
        "rotary_embedding_dim": turned if turned != depth else d.pick(None, 0),
        "interleaved": d.pick(None, 0, 1),
        "scale": d.pick(None, None, 1.0),
        "is_packed_batching": d.pick(None, 0),
    }
    free: Any = {0: (0, 1) if packed else (0, 2), 1: (0, 1) if positions.ndim == 2 else (), 2: (0,), 3: (0,)}
    return Case(
        "RotaryEmbedding", [x, positions, d.f(room, turned // 2), d.f(room, turned // 2)], attributes, open=free
    )


@draws("MRotaryEmbedding")
def m_rotary_embedding(d: Draw) -> Case:
    batch, length, heads, half, room = d.size(1, 2), d.size(1, 3), d.size(1, 2), d.size(3, 4, 6), 9
    part = d.pick(False, True)
    depth = 2 * half + (2 if part else 0)
    packed = d.flag()
    x = d.f(batch, length, heads * depth) if packed else d.f(batch, heads, length, depth)
    first = d.size(0, 1, 2) if half < 6 else 2
    sections = [half - first - (half - first) // 2, first, (half - first) // 2]
    attributes = {
        "mrope_section": sections,
        "mrope_layout": d.pick(None, 0, 1),
        "num_heads": heads if part or packed else d.pick(None, heads),
        "rotary_embedding_dim": 2 * half if part else d.pick(None, 0),
        "interleaved": d.pick(None, 0, 1),
        "scale": d.pick(None, 1.0),
        "is_packed_batching": d.pick(None, 0),
    }
    positions = d.ints(0, room, 3, batch, length, dtype=np.int64)
    free = {0: (0, 1) if packed else (0, 2), 1: (1, 2), 2: (0,), 3: (0,)}
    return Case("MRotaryEmbedding", [x, positions, d.f(room, half), d.f(room, half)], attributes, open=free)


STATES = "states of several positions"


@draws("LinearAttention")
def linear_attention(d: Draw) -> Case:
    batch, length, groups, share = d.size(1, 2), d.size(1, 2, 5), d.size(1, 2), d.size(1, 2)
    keys, values, heads = d.size(2, 4), d.size(3, 4), groups * share
    rule = d.pick(None, "linear", "gated", "delta", "gated_delta")
    decays, updates = rule in (None, "gated", "gated_delta"), rule in (None, "delta", "gated_delta")
    operands = [
        d.f(batch, length, heads * keys),
        d.f(batch, length, groups * keys, scale=0.5),
        d.f(batch, length, groups * values),
        d.maybe(d.f(batch, groups, keys, values)),
        -np.abs(d.f(batch, length, d.pick(groups, groups * keys))) if decays else None,
        1 / (1 + np.exp(d.f(batch, length, d.pick(groups, 1)))) if updates else None,
    ]
    attributes = {
        "q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule, "scale": d.pick(None, 0.0, 0.3),
        "chunk_size": d.pick(None, 2), "state_window": d.pick(None, 0),
    }  # fmt: skip
    free = dict.fromkeys((0, 1, 2, 4, 5), (0, 1)) | {3: (0,)}
    return Case("LinearAttention", operands, attributes, 2, open=free)


@draws("CausalConvWithState")
def causal_conv_with_state(d: Draw) -> Case:
    batch, channels, length, taps = d.size(1, 2), d.size(1, 4), d.size(1, 3, 6), d.size(1, 2, 4)
    dilation, last = d.pick(None, 1, 2), d.pick(None, 0, 1)
    reach = (taps - 1) * (dilation or 1)
    x, state = d.f(batch, channels, length), d.f(batch, channels, reach)
    if last:
        x, state = (a.swapaxes(1, 2).copy() for a in (x, state))
    operands = [x, d.f(channels, 1, taps), d.maybe(d.f(channels)), d.maybe(state)]
    attributes = {
        "dilation": dilation, "channels_last": last, "activation": d.pick(None, "none", "silu", "swish"),
        "ndim": d.pick(None, 1), "state_window": d.pick(None, 0),
    }  # fmt: skip
    free = {0: (0, 1) if last else (0, 2), 3: (0,)}
    return Case("CausalConvWithState", operands, attributes, 2, open=free)


@draws("GroupQueryAttention")
def group_query_attention(d: Draw) -> Case:
    batch, groups, share, depth = d.size(1, 2, 3), d.size(1, 2), d.size(1, 2, 3), d.pick(8, 16)
    heads = groups * share
    kind = d.pick("prompt", "prompt", "token", "chunk")
    if kind == "chunk":  # several new keys behind old ones: the runtime takes one row
        batch = 1
    length = 1 if kind == "token" else d.size(2, 3, 5)
    past = 0 if kind == "prompt" else d.size(2, 4)
    total = past + length
    lengths = np.full(batch, total, np.int32)
    if kind == "token":
        lengths = d.ints(1, total + 1, batch)
        lengths[0] = total
    cached = d.pick(past, past, total, total + 3) if past else d.pick(None, 0, total, total + 2)
    causal = d.pick(1, 1, 1, 0)
    packed = d.flag()
    rotary = d.flag()
    columns = d.pick(depth // 2, depth // 4) if rotary else depth // 2
    norm = d.pick(False, False, True)
    position = d.pick(False, True)
    ids = np.arange(past, total)[None] + d.ints(0, 3, batch, 1, dtype=np.int64)
    operands: list[Any] = [
        d.f(batch, length, (heads + 2 * groups if packed else heads) * depth),
        None if packed else d.f(batch, length, groups * depth),
        None if packed else d.f(batch, length, groups * depth),
        None if cached is None else d.f(batch, groups, cached, depth),
        None if cached is None else d.f(batch, groups, cached, depth),
        lengths - 1,
        np.array(total, np.int32),
        d.f(32, columns) if rotary else None,
        d.f(32, columns) if rotary else None,
        ids.astype(np.int64) if position else None,
        _bias(d, batch, heads, length, total),
        d.pick(None, None, d.f(heads)),
        None,
        None,
        d.f(depth) if norm else None,
        d.f(depth) if norm else None,
    ]
    attributes = {
        "num_heads": heads,
        "kv_num_heads": groups,
        "do_rotary": int(rotary),
        "rotary_interleaved": d.pick(None, 0, 1) if rotary else None,
        "scale": d.pick(None, None, 0.2),
        "softcap": d.pick(None, None, 2.0),
        "local_window_size": d.pick(None, -1, 2, 3) if causal else None,
        "smooth_softmax": d.pick(None, None, 0, 1),
        "causal": d.pick(None, 1) if causal else 0,
        "qk_norm_epsilon": d.pick(None, 0.1) if norm else None,
        "k_quant_type": d.pick(None, "NONE"),
        "v_quant_type": d.pick(None, "NONE"),
        "sliding_window_cache": d.pick(None, 0),
        "qk_output": d.pick(None, None, 0, 1, 2) if (lengths == total).all() else None,
    }
    outputs = [True, True, True, bool(attributes["qk_output"])]
    constant = d.pick((), (), (6,))
    free = {0: (0, 1), 1: (0, 1), 2: (0, 1), 3: (0, 2), 4: (0, 2), 5: (0,), 7: (0,), 8: (0,), 9: (0, 1), 10: (0, 2, 3)}
    return Case(
        "GroupQueryAttention", operands, attributes, outputs, constant, open=free, truth=grouped_attention, both=True
    )


@draws("QAttention")
def qattention(d: Draw) -> Case:
    batch, length, heads, depth, width = (
        d.size(1, 2, 3),
        d.size(1, 3, 5),
        d.size(1, 2, 3),
        d.size(2, 4, 5),
        d.size(3, 8),
    )
    past = d.pick(0, 0, 2, 3)
    total, columns = past + length, 3 * heads * depth
    weight_type, per_column = d.pick(np.uint8, np.int8), d.flag()
    shape = (columns,) if per_column else ()
    weight = (d.bytes(weight_type, width, columns) // (2 if weight_type is np.int8 else 1)).astype(weight_type)
    operands: list[Any] = [
        d.bytes(np.uint8, batch, length, width),
        weight,
        d.f(columns),
        np.array(0.02, np.float32),
        d.positive(*shape, low=0.002, high=0.02) if per_column else np.array(0.01, np.float32),
        _mask(d, batch, length, past, total, ("", "ends", "ends and starts", "flags", "rows")),
        d.maybe(d.bytes(np.uint8)),
        d.maybe(d.bytes(weight_type, *shape)),
        d.f(2, batch, heads, past, depth) if past else None,
    ]
    attributes = {
        "num_heads": heads,
        "unidirectional": d.pick(None, 0, 1),
        "scale": d.pick(None, None, 0.3),
        "mask_filter_value": d.pick(None, None, -50.0),
        "do_rotary": d.pick(None, 0),
        "past_present_share_buffer": d.pick(None, 0),
    }
    free = {0: (0, 1), 5: (0, 1, 2), 8: (1, 3)}
    outputs = 2 if past else [True, d.flag()]
    return Case("QAttention", operands, attributes, outputs, (1, 3, 4, 6, 7), tolerance=1e-4, open=free)


@draws("DecoderMaskedMultiHeadAttention")
def decoder_masked_attention(d: Draw) -> Case:
    batch, heads, depth = d.size(1, 2), d.size(1, 2, 3), d.size(4, 8)
    kind = d.pick("self", "packed", "cross")
    past = d.size(1, 3)
    shared = kind != "cross"
    total = d.size(2, 5) if kind == "cross" else past + 1
    cached = past + d.size(1, 3) if shared else past
    hidden = heads * depth
    new = kind == "self"
    if kind == "cross":
        key, value = d.f(batch, heads, total, depth), d.f(batch, heads, total, depth)
    else:
        key, value = (d.f(batch, 1, hidden), d.f(batch, 1, hidden)) if new else (None, None)
    cache = kind != "cross"
    flags = d.ints(0, 2, batch, total)
    flags[:, 0] = 1
    operands: list[Any] = [
        d.f(batch, 1, hidden * (3 if kind == "packed" else 1)),
        key,
        value,
        d.maybe(flags),
        _bias(d, batch, heads, 1, total) if kind != "cross" else None,
        d.f(batch, heads, cached, depth) if cache else None,
        d.f(batch, heads, cached, depth) if cache else None,
        np.array([past], np.int32) if shared else None,
        d.maybe(np.array([1], np.int32)),
        None,
        d.maybe(d.f(hidden * 3)) if kind != "cross" else None,
    ]
    attributes = {
        "num_heads": heads,
        "past_present_share_buffer": int(shared) if shared or d.flag() else None,
        "scale": d.pick(None, 0.3),
        "mask_filter_value": d.pick(None, -50.0),
    }
    free = {0: (0,), 1: (0,), 2: (0,), 3: (0, 1), 5: (0, 2), 6: (0, 2)}
    apart = np.split(operands[0], 3, axis=2) if kind == "packed" else []
    instead = {i: np.ascontiguousarray(a) for i, a in enumerate(apart)}  # the runtime's CPU kernel does not split
    types = {3: FLOAT}
    seen = kind == "cross" and d.flag()
    attributes["output_qk"] = 1 if seen else d.pick(None, 0)
    outputs = [True, cache, cache, seen]
    return Case(
        "DecoderMaskedMultiHeadAttention", operands, attributes, outputs, open=free, instead=instead, result_types=types
    )


@draws("SparseAttention")
def sparse_attention_case(d: Draw) -> Case:
    batch, groups, share, depth, block = d.size(1, 2), d.size(1, 2), d.size(1, 2), 16, 16
    heads, blocks = groups * share, d.size(2, 3)
    room = blocks * block
    prompt = d.flag()
    length = d.size(3, 20, room) if prompt else 1
    total = length if prompt else d.size(2, 17, room)
    lengths = np.full(batch, total, np.int32)
    if not prompt:
        lengths = d.ints(1, total + 1, batch)
        lengths[0] = total
    layouts = d.pick(1, share)
    flags = np.tril(d.ints(0, 2, layouts, blocks, blocks)) | np.eye(blocks, dtype=np.int32)
    rows = np.concatenate([np.zeros((layouts, 1), np.int32), np.cumsum(flags.sum(2), axis=1)], axis=1).astype(np.int32)
    columns = np.full((layouts, int(rows[:, -1].max())), -1, np.int32)
    for index, matrix in enumerate(flags):
        columns[index, : rows[index, -1]] = np.nonzero(matrix)[1]
    packed, rotary = d.flag(), d.flag()
    operands: list[Any] = [
        d.f(batch, length, (heads + 2 * groups if packed else heads) * depth),
        None if packed else d.f(batch, length, groups * depth),
        None if packed else d.f(batch, length, groups * depth),
        d.f(batch, groups, room, depth),
        d.f(batch, groups, room, depth),
        rows,
        columns,
        np.array([total], np.int32),
        lengths,
        d.f(room, depth // 2) if rotary else None,
        d.f(room, depth // 2) if rotary else None,
    ]
    attributes = {
        "num_heads": heads,
        "kv_num_heads": groups,
        "sparse_block_size": block,
        "do_rotary": int(rotary),
        "rotary_interleaved": d.pick(None, 0, 1),
        "scale": d.pick(None, 0.3),
    }
    free = {0: (0, 1), 1: (0, 1), 2: (0, 1), 3: (0, 2), 4: (0, 2), 6: (1,), 8: (0,)}
    cases = Case(
        "SparseAttention", operands, attributes, 3, d.pick((), (5, 6), (7,)), open=free, truth=sparse_attention
    )
    alike = bool((lengths == total).all())  # rows of other lengths read memory that the runtime has not written
    return replace(cases, both=alike, shared={1: 3, 2: 4})
