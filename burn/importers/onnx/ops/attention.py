"""Attention in its forms: softmax attention with caches, FlexAttention, linear attention, rotary position embedding,
and the causal convolution that goes with the linear kind."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.attention import bias, mix, probabilities, scores, soft_cap, visible
from burn.dialect.compose import convert, dim_value, number, reshape, transpose, wide
from burn.dialect.dims import Dim, exact_div
from burn.dialect.mlir import ir
from burn.dialect.recurrent import UNROLLED_STEPS, loop_over
from burn.dialect.types import TensorType, is_symbolic, type_of
from burn.importers.onnx.node import Node, onnx_op

RAW, CAPPED, BIASED, SOFTMAX = range(4)
"""The meaning of Attention's fourth output, by `qk_matmul_output_mode`."""


def split_heads(node: Node, x: ir.Value, heads: int, attribute: str) -> ir.Value:
    """[b, s, heads * d] as [b, heads, s, d]."""
    if type_of(x).rank != 3:
        node.fail(f"queries, keys and values must have one rank, not {type_of(x)}")
    batch, length, width = type_of(x).shape
    depth = depth_of(node, width, heads, attribute)
    return transpose(reshape(x, (batch, length, heads, depth)), (0, 2, 1, 3))


def depth_of(node: Node, width: Dim, heads: int, attribute: str = "") -> Dim:
    """How many of `width` features each head has."""
    depth = exact_div(width, heads) if heads > 0 else None
    if depth is None:
        if is_symbolic(width):
            node.fail(f"the number of features must be known to split them into heads, not {width}", attribute)
        node.fail(f"{width} features do not split into {heads} heads", attribute)
    return depth


def join_heads(x: ir.Value) -> ir.Value:
    """[b, heads, s, d] as [b, s, heads * d]."""
    batch, heads, length, depth = type_of(x).shape
    return reshape(transpose(x, (0, 2, 1, 3)), (batch, length, heads * depth))


def scaled(q: ir.Value, k: ir.Value, scale: float | None) -> tuple[ir.Value, ir.Value, float]:
    """Queries, keys and the factor of their scores, 1 / sqrt(features of a head) by default. Where that number of features
    is a size of the run they have taken the factor in: in the 16-bit types each its root, as `scores` does."""
    depth, dtype = type_of(q).shape[-1], type_of(q).dtype
    if scale is not None:
        return q, k, scale
    if isinstance(depth, int):
        return q, k, max(depth, 1) ** -0.5
    factor = ops.rsqrt(convert(dim_value(depth), wide(dtype)))
    if wide(dtype) == dtype:
        return ops.mul(q, factor), k, 1.0
    root = convert(ops.sqrt(factor), dtype)
    return ops.mul(q, root), ops.mul(k, root), 1.0


def widen_mask(mask: ir.Value, total: Dim) -> ir.Value:
    """A mask whose last axis covers only the first keys: the others are hidden."""
    type_ = type_of(mask)
    if type_.rank == 0 or type_.shape[-1] in (1, total):
        return mask
    missing = total - type_.shape[-1]
    if isinstance(missing, int) and missing <= 0:
        return mask
    hidden = number(False, "bool") if type_.dtype == "bool" else number(float("-inf"), type_.dtype)
    low = (0,) * type_.rank
    return ops.pad(mask, hidden, low=low, high=(*low[1:], missing))


@onnx_op("Attention", ranks=((3, 4), (3, 4), (3, 4), (0, 1, 2, 3, 4), 4, 4, 1))
def attention(node: Node) -> list[ir.Value | None]:
    q, k, v = (node.required(i) for i in range(3))
    if not type_of(q).rank == type_of(k).rank == type_of(v).rank:
        node.fail(f"queries, keys and values must have one rank, not {type_of(q)}, {type_of(k)} and {type_of(v)}")
    packed = type_of(q).rank == 3
    if packed:
        q = split_heads(node, q, node.int("q_num_heads"), "q_num_heads")
        k, v = (split_heads(node, x, node.int("kv_num_heads"), "kv_num_heads") for x in (k, v))
    else:
        node.no_effect("q_num_heads", "kv_num_heads", because="4-D operands have an axis of heads")
    past: Dim = 0
    if (node.input(4) is None) != (node.input(5) is None):
        node.fail("past_key and past_value must be given together")
    if node.input(4) is not None:
        past = node.type(4).shape[2]
        k, v = ops.concat([node.required(4), k], axis=2), ops.concat([node.required(5), v], axis=2)
    mask, lengths = node.input(3), node.input(6)
    if lengths is not None and node.input(4) is not None:
        node.fail("nonpad_kv_seqlen cannot be used together with past_key")
    if mask is not None:
        if type_of(mask).dtype != "bool":  # integers are added to the scores, as floats are
            mask = convert(mask, type_of(q).dtype)
        mask = widen_mask(mask, type_of(k).shape[2])
    q, keys, scale = scaled(q, k, node.float("scale", None))
    region = {
        "causal": node.int("is_causal", 0) == 1,
        "offset": past,
        "left": node.int("left_window_size", -1),
        "right": node.int("right_window_size", -1),
    }
    softcap = node.float("softcap", 0.0)
    precision = node.dtype("softmax_precision", None)
    wanted = None
    if node.needs_output(3):
        out, wanted = _with_scores(node, (q, keys, v), mask, lengths, scale, softcap, precision, region)
    else:
        node.no_effect("qk_matmul_output_mode", because="it chooses the fourth output")
        out = ops.attention(q, keys, v, mask, lengths, scale=scale, softcap=softcap, precision=precision, **region)
    return [join_heads(out) if packed else out, k, v, wanted]


def _with_scores(
    node: Node,
    operands: tuple[ir.Value, ir.Value, ir.Value],
    mask: ir.Value | None,
    lengths: ir.Value | None,
    scale: float,
    softcap: float,
    precision: str | None,
    region: dict,
) -> tuple[ir.Value, ir.Value]:
    """Attention step by step, with the scores that the node returns."""
    q, k, v = operands
    raw = scores(q, k, scale)
    capped = soft_cap(raw, softcap)
    biased = bias(capped, mask, visible(type_of(raw).shape, lengths, **region))
    p = probabilities(biased, precision)
    mode = node.int("qk_matmul_output_mode", 0)
    steps = {RAW: raw, CAPPED: capped, BIASED: biased, SOFTMAX: p}
    if mode not in steps:
        node.fail(f"must be 0 to 3, not {mode}", "qk_matmul_output_mode")
    return mix(p, v), steps[mode]


@onnx_op("FlexAttention", domain="ai.onnx.preview", ranks=(4, 4, 4))
def flex_attention(node: Node) -> ir.Value:
    q, k, v = (node.required(i) for i in range(3))
    q, k, scale = scaled(q, k, node.float("scale", None))
    dtype = type_of(q).dtype
    precision = node.dtype("softmax_precision", "float64" if dtype == "float64" else "float32")
    if not node.has("score_mod") and not node.has("prob_mod"):
        return ops.attention(q, k, v, scale=scale, precision=precision)
    x = convert(scores(q, k, scale), precision)
    if node.has("score_mod"):
        (x,) = node.build_subgraph(node.graph("score_mod"), [x])
    p = probabilities(x)
    if node.has("prob_mod"):
        (p,) = node.build_subgraph(node.graph("prob_mod"), [p])
    return mix(convert(p, dtype), v)


@onnx_op("RotaryEmbedding", ranks=((3, 4), (2, 3), (2, 3), 2))
def rotary_embedding(node: Node) -> ir.Value:
    x, cos, sin = (node.required(i) for i in range(3))
    packed = type_of(x).rank == 3
    if packed:
        x = split_heads(node, x, node.int("num_heads"), "num_heads")
    else:
        node.no_effect("num_heads", because="a 4-D operand has an axis of heads")
    if node.input(3) is not None:
        cos, sin = (ops.gather(c, node.required(3), axis=0) for c in (cos, sin))
    half = node.int("rotary_embedding_dim", 0) or type_of(x).shape[-1]
    angles = type_of(cos).shape[-1]
    if not isinstance(angles, int):
        node.fail(f"the number of angles must be known, not {angles}")
    if isinstance(half, int) and angles * 2 != half:
        node.fail(f"cos_cache of {angles} angles does not rotate {half} features", "rotary_embedding_dim")
    out = ops.rotary_embedding(x, cos, sin, interleaved=node.int("interleaved", 0) == 1)
    return join_heads(out) if packed else out


UPDATE_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""update_rule -> whether the state decays, and whether what it already says of a key is subtracted."""


@onnx_op("LinearAttention", ranks=(3, 3, 3, 4, 3, 3))
def linear_attention(node: Node) -> list[ir.Value]:
    """S' = exp(g) S + k (x) v, or with v replaced by beta (v - S^T k); out = scale q^T S'. State [b, heads, dk, dv]."""
    rule = node.string("update_rule", "gated_delta")
    if rule not in UPDATE_RULES:
        node.fail(f"'{rule}' is none of {', '.join(UPDATE_RULES)}", "update_rule")
    gated, delta = UPDATE_RULES[rule]
    node.no_effect("chunk_size", because="it says how to compute, not what")
    heads, groups = node.int("q_num_heads"), node.int("kv_num_heads")
    if groups < 1 or heads % groups:
        node.fail(f"{heads} query heads do not share {groups} key heads evenly", "q_num_heads")
    dtype = node.type(0).dtype
    for index, needed, name in ((4, gated, "decay"), (5, delta, "beta")):
        if needed != (node.input(index) is not None):
            node.fail(f"the rule '{rule}' {'needs' if needed else 'does not take'} {name}", "update_rule")

    def by_time(index: int, count: int) -> ir.Value:
        """A packed operand [b, t, count * d] as [t, b, count, d], in float32 at least."""
        x = convert(node.required(index), wide(dtype))
        batch, time, width = type_of(x).shape
        return transpose(reshape(x, (batch, time, count, depth_of(node, width, count))), (1, 0, 2, 3))

    q, k, v = by_time(0, heads), by_time(1, groups), by_time(2, groups)
    time, batch, _, depth = type_of(k).shape
    width = type_of(v).shape[-1]
    decay = ops.exp(by_time(4, groups)) if gated else None
    beta = by_time(5, 1 if node.type(5).shape[-1:] == (1,) else groups) if delta else None
    q, _, scale = scaled(q, k, node.float("scale", 0.0) or None)
    past = node.input(3)
    if past is None:
        state = ops.full(shape=(batch, groups, depth, width), dtype=wide(dtype))
    else:
        state = convert(past, wide(dtype))

    output = TensorType(wide(dtype), (batch, heads * width))

    def step(moment: ir.Value, state: ir.Value) -> tuple[list[ir.Value], ir.Value]:
        def now(x: ir.Value) -> ir.Value:
            return ops.gather(x, moment, axis=0)

        def column(x: ir.Value) -> ir.Value:
            return reshape(x, (*type_of(x).shape, 1))

        key, value = now(k), now(v)
        if decay is not None:
            state = ops.mul(state, column(now(decay)))
        if beta is not None:
            said = ops.dot_general(key, state, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(2,), rhs_contract=(2,))
            value = ops.mul(now(beta), ops.sub(value, said))
        state = ops.add(state, ops.mul(column(key), reshape(value, (batch, groups, 1, width))))
        query = reshape(now(q), (batch, groups, heads // groups, depth))
        out = ops.dot_general(query, state, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(2,))
        return [state], reshape(out, output.shape)

    if isinstance(time, int) and 0 < time <= UNROLLED_STEPS:
        outputs = []
        for index in range(time):
            (state,), out = step(number(index, "int64"), state)
            outputs.append(reshape(out, (1, *output.shape)))
        stacked = ops.concat(outputs, axis=0)
    else:
        stacked, (state,) = loop_over(time, [state], output, lambda moment, states: step(moment, states[0]))
    out = transpose(ops.mul(stacked, number(scale, wide(dtype))), (1, 0, 2))
    return [convert(out, dtype), convert(state, dtype if past is None else type_of(past).dtype)]


@onnx_op("CausalConvWithState", ranks=(3, 3, 1, 3))
def causal_conv_with_state(node: Node) -> list[ir.Value]:
    return causal_convolution(node, node.required(0), node.input(3))


def causal_convolution(node: Node, x: ir.Value, past: ir.Value | None, dilation: int = 1) -> list[ir.Value]:
    """x [b, c, l] behind the state [b, c, (taps - 1) * dilation], convolved channel by channel; and the state after it."""
    weight = node.required(1)
    (batch, channels, _), taps = type_of(x).shape, type_of(weight).shape[2]
    if not isinstance(taps, int) or not isinstance(channels, int):
        node.fail(f"the numbers of channels and taps must be known, not {channels} and {taps}")
    if not channels or not taps:
        node.fail(f"needs a channel and a tap at least, not {channels} and {taps}")
    reach = (taps - 1) * dilation
    if past is None:
        past = ops.full(shape=(batch, channels, reach), dtype=type_of(x).dtype)
    whole = ops.concat([past, x], axis=2)
    out = ops.conv(whole, weight, strides=(1,), dilations=(dilation,), low=(0,), high=(0,), groups=channels)
    if node.input(2) is not None:
        out = ops.add(out, reshape(node.required(2), (channels, 1)))
    activation = node.string("activation", "none")
    if activation not in ("none", "silu", "swish"):
        node.fail(f"'{activation}' is none of none, silu, swish", "activation")
    if activation != "none":
        wider = convert(out, wide(type_of(x).dtype))
        out = convert(ops.mul(wider, ops.sigmoid(wider)), type_of(x).dtype)
    length = type_of(whole).shape[2]
    state = ops.slice(whole, starts=(0, 0, length - reach), sizes=(batch, channels, reach), steps=(1, 1, 1))
    return [out, state]
