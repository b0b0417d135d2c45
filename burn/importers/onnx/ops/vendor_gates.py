"""Gates and norms of com.microsoft: RMS norms by groups, gated sums, hyper-connections.

The 16-bit types are computed in float32 and rounded once, as the operators' descriptions say.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, reshape, wide
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.vendor import DOMAIN


def widened(x: ir.Value) -> ir.Value:
    return convert(x, wide(type_of(x).dtype))


@onnx_op("ScaledSiLU", domain=DOMAIN)
def scaled_silu(node: Node) -> ir.Value:
    """z sigmoid(z) of z = scale x; z and its sigmoid are rounded to x's type."""
    x, dtype = node.required(0), node.type(0).dtype
    if node.has_input(1):
        scale = reshape(widened(node.required(1)), ())
        node.no_effect("alpha", because="the scale is an operand")
    else:
        scale = number_like(node.float("alpha", 1.0), widened(x))
    z = convert(ops.mul(widened(x), scale), dtype)
    share = convert(ops.sigmoid(widened(z)), dtype)
    return convert(ops.mul(widened(z), widened(share)), dtype)


@onnx_op("GatedAdd", domain=DOMAIN)
def gated_add(node: Node) -> ir.Value:
    return ops.add(node.required(0), ops.mul(node.required(1), node.required(2)))


def rms(x: ir.Value, scale: ir.Value | None, epsilon: float) -> ir.Value:
    """x / sqrt(mean(x^2) + epsilon) along the last axis, times a scale that broadcasts."""
    out = ops.rms_norm(x, None, axis=type_of(x).rank - 1, epsilon=epsilon)
    return out if scale is None else ops.mul(out, convert(scale, type_of(out).dtype))


def in_branches(node: Node, x: ir.Value, count: int) -> ir.Value:
    """[.., c * h] as [.., c, h] where the node says how many branches there are."""
    if not count:
        return x
    *lead, width = type_of(x).shape
    each = exact_div(width, count)
    if each is None:
        node.fail(f"{width} features do not split into {count} branches", "num_branches")
    return reshape(x, (*lead, count, each))


@onnx_op("BranchwiseRMSNorm", domain=DOMAIN)
def branchwise_rms_norm(node: Node) -> ir.Value:
    x, type_ = node.required(0), node.type(0)
    branches = in_branches(node, widened(x), node.int("num_branches", 0))
    if type_of(branches).rank < 2:
        node.fail(f"takes branches [.., c, h], not {type_}")
    scale = node.input(1)
    if scale is not None:
        count, each = type_of(branches).shape[-2:]
        if type_of(scale).rank == 1 and type_of(scale).shape != (each,):
            scale = reshape(scale, (count, each))
    out = rms(branches, scale, node.float("epsilon", 1e-5))
    return reshape(convert(out, type_.dtype), type_.shape)


@onnx_op("GatedRMSNorm", domain=DOMAIN, ranks=(None, 1))
def gated_rms_norm(node: Node) -> ir.Value:
    """RMS norms of groups of as many features as the scale has, times an activated gate."""
    x, type_, (width,) = node.required(0), node.type(0), node.type(1).shape
    kind = node.string("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        node.fail(f"'{kind}' is none of silu, swish, sigmoid", "activation")
    *lead, features = type_.shape
    groups = exact_div(features, width)
    if groups is None:
        node.fail(f"{features} features do not split into groups of {width}")
    normal = rms(reshape(widened(x), (*lead, groups, width)), node.required(1), node.float("epsilon", 1e-5))
    gate = widened(node.required(2))
    gate = ops.sigmoid(gate) if kind == "sigmoid" else ops.silu(gate)
    return convert(ops.mul(reshape(normal, type_.shape), gate), type_.dtype)


@onnx_op("EngramGate", domain=DOMAIN, ranks=(4, 4, 3, 2, 2, 2))
def engram_gate(node: Node) -> list[ir.Value | None]:
    """A value [b, s, h] times, for each connection [b, s, c], a gate of how much its key and query agree."""
    dtype, epsilon = node.type(0).dtype, node.float("epsilon", 1e-5)
    width = node.type(0).shape[3]
    key, query = (rms(widened(node.required(i)), node.required(3 + i), epsilon) for i in (0, 1))
    dot = ops.reduce(ops.mul(key, query), kind="sum", axes=(3,), keepdims=True)
    dot = ops.mul(dot, number_like(_inverse_root(node, width), dot))
    root = ops.sqrt(ops.max(ops.abs(dot), number_like(1e-6, dot)))
    gate = ops.sigmoid(ops.mul(ops.sign(dot), root))
    batch, length, features = node.type(2).shape
    out = ops.mul(gate, reshape(widened(node.required(2)), (batch, length, 1, features)))
    normed = None
    if node.needs_output(1):
        normed = convert(rms(out, node.required(5), epsilon), dtype)
    else:
        node.no_effect(5, because="it scales the second output")
    return [convert(out, dtype), normed]


def _inverse_root(node: Node, width: Dim) -> float:
    if not isinstance(width, int):
        node.fail(f"the number of features must be known, not {width}")
    return max(width, 1) ** -0.5


def _stream_gate(node: Node, index: int, streams: ir.Value, grouped: bool) -> ir.Value:
    """A gate [.., c], [.., c, 1], [.., c, h] or [.., c * h] that broadcasts over streams [.., c, h]."""
    gate, (*lead, count, each) = widened(node.required(index)), type_of(streams).shape
    rank, last = type_of(gate).rank, type_of(gate).shape[-1] if type_of(gate).rank else 1
    if rank == len(lead) + 2:
        return gate
    if rank == len(lead) + 1 and last == count:
        return reshape(gate, (*lead, count, 1))
    if rank != len(lead) + 1 or grouped or last != count * each:
        node.fail(f"a gate {node.type(index)} does not fit streams {type_of(streams)}")
    return reshape(gate, (*lead, count, each))


@onnx_op("HyperConnectionPreMix", domain=DOMAIN)
def hyper_connection_pre_mix(node: Node) -> ir.Value:
    """scale * sum over c of streams [.., c, h] times their gates: [.., h]."""
    count = node.int("num_branches", 0)
    streams = in_branches(node, widened(node.required(0)), count)
    mixed = ops.mul(streams, _stream_gate(node, 1, streams, not count))
    total = ops.reduce(mixed, kind="sum", axes=(type_of(mixed).rank - 2,))
    return convert(ops.mul(total, number_like(node.float("reduction_scale", 1.0), total)), node.type(0).dtype)


@onnx_op("HyperConnectionPostMix", domain=DOMAIN)
def hyper_connection_post_mix(node: Node) -> ir.Value:
    """The streams [.., c, h], mixed by a matrix [.., c, c] where there is one, plus a gated output of a block [.., h]."""
    type_, count = node.type(0), node.int("num_branches", 0)
    streams = in_branches(node, widened(node.required(0)), count)
    gate = _stream_gate(node, 2, streams, not count)
    if node.has_input(3):
        streams = _mixed(node, streams, widened(node.required(3)))
    block = widened(node.required(1))
    *lead, each = type_of(block).shape
    out = ops.add(streams, ops.mul(gate, reshape(block, (*lead, 1, each))))
    return reshape(convert(out, type_.dtype), type_.shape)


def _mixed(node: Node, streams: ir.Value, matrix: ir.Value) -> ir.Value:
    """sum over c of matrix [.., c, k] times streams [.., c, h]: [.., k, h]."""
    *lead, count, each = type_of(streams).shape
    if type_of(matrix).shape != (*lead, count, count):
        node.fail(f"a matrix {type_of(matrix)} does not mix streams {type_of(streams)}")
    batch = product(lead)
    a, b = reshape(matrix, (batch, count, count)), reshape(streams, (batch, count, each))
    mixed = ops.dot_general(a, b, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(1,), rhs_contract=(1,))
    return reshape(mixed, (*lead, count, each))


@onnx_op("LinearAttentionGate", domain=DOMAIN, ranks=(3, 1, 1, 3))
def linear_attention_gate(node: Node) -> list[ir.Value | None]:
    """decay_scale * softplus(a + dt_bias), and sigmoid(b)."""
    dtype = node.type(0).dtype
    decay = ops.softplus(ops.add(widened(node.required(0)), node.required(1)))
    decay = convert(ops.mul(decay, node.required(2)), dtype)
    beta = None
    if node.needs_output(1):
        beta = convert(ops.sigmoid(widened(node.required(3))), dtype)
    else:
        node.no_effect(3, because="the second output is made of it")
    return [decay, beta]
