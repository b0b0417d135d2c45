"""Mixtures of experts of com.microsoft, with weights of floats or of a few bits.

All experts are computed for every token, in two batched matmuls; the experts that a token's router did not choose count as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from burn.dialect import ops
from burn.dialect.blocks import numbers
from burn.dialect.compose import convert, number, number_like, part, reshape, transpose, wide
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.vendor import DOMAIN

ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")


@dataclass(frozen=True)
class Layer:
    """The experts' weights [e, out, in] and biases [e, out]."""

    weight: ir.Value
    bias: ir.Value | None


@onnx_op("MoE", domain=DOMAIN, ranks=((2, 3), 2, 3, 2, 3, 2))
def moe(node: Node) -> ir.Value:
    first, second = (Layer(node.required(i), node.input(i + 1)) for i in (2, 4))
    chosen = routed(node, node.required(1), None)
    return mixed(node, chosen, first, second)


@onnx_op("QMoE", domain=DOMAIN, ranks=((2, 3), 2, 3, (2, 3), 2, 3, (2, 3), 2))
def qmoe(node: Node) -> ir.Value:
    """Weights are integers of 2, 4 or 8 bits with a scale for each row, or for each block of a row.

    As in ONNX Runtime's kernel the shares of the chosen experts add up to 1, unless weights of their own are given."""
    if node.string("quant_type", "int") != "int":
        node.fail("weights of small floats are not supported", "quant_type")
    if node.int("weights_prepacked", -1) > 0:
        node.fail("weights in the layout of one device are not supported", "weights_prepacked")
    node.no_effect("accuracy_level", because="it allows less exact products, and does not ask for them")
    node.no_effect("fc3_expert_weight_bits", because="there is no third layer")
    bits = node.int("expert_weight_bits", 4)
    widths = [node.int(f"fc{i}_expert_weight_bits", bits) for i in (1, 2)]
    first = Layer(_dequantised(node, 2, 3, 11, widths[0]), node.input(4))
    second = Layer(_dequantised(node, 5, 6, 12, widths[1]), node.input(7))
    chosen = routed(node, node.required(1), node.input(14), always_normalised=not node.has_input(14))
    return mixed(node, chosen, first, second)


def _dequantised(node: Node, weight: int, scale: int, zero: int, bits: int) -> ir.Value:
    """Weights [e, out, in * bits / 8] as floats [e, out, in]; the three numbers are indices of operands."""
    if bits not in (2, 4, 8):
        node.fail(f"must be 2, 4 or 8, not {bits}", "expert_weight_bits")
    block = node.int("block_size", 0)
    values = numbers(node.required(weight), bits)
    experts, rows, depth = type_of(values).shape
    scales = node.required(scale)
    dtype = wide(type_of(scales).dtype)
    if type_of(scales).rank == 2:
        scales = reshape(scales, (experts, rows, 1))
    blocks = type_of(scales).shape[2]
    if blocks != 1 and (not block or not isinstance(depth, int) or blocks * block != depth):
        node.fail(f"scales {node.type(scale)} do not fit blocks of {block} of {depth} numbers", "block_size")
    if not isinstance(blocks, int):
        node.fail(f"the number of blocks must be known, not {blocks}")
    if node.has_input(zero):
        points = _zero_points(node, zero, bits, (experts, rows, blocks))
    else:
        points = number(float(1 << (bits - 1)), dtype)
    apart = reshape(convert(values, dtype), (experts, rows, blocks, _known(node, depth) // blocks))
    point = points if not type_of(points).rank else reshape(points, (experts, rows, blocks, 1))
    whole = ops.mul(ops.sub(apart, convert(point, dtype)), reshape(convert(scales, dtype), (experts, rows, blocks, 1)))
    return reshape(whole, (experts, rows, depth))


def _known(node: Node, size: object) -> int:
    if not isinstance(size, int):
        node.fail(f"the sizes of the weights must be known, not {size}")
    return size


def _zero_points(node: Node, index: int, bits: int, shape: tuple) -> ir.Value:
    """Zero points, packed along the rows where each row has one, along its blocks where it has several."""
    packed, (experts, rows, blocks) = node.required(index), shape
    apart = numbers(packed, bits)
    if type_of(packed).rank == 2:
        return part(apart, 1, 0, rows)
    return reshape(part(apart, 2, 0, blocks), (experts, rows, blocks))


def routed(node: Node, router: ir.Value, weights: ir.Value | None, always_normalised: bool = False) -> ir.Value:
    """How much each expert counts for each token [t, e]; 0 for those that are not among its `k` first."""
    if node.int("use_sparse_mixer", 0):
        node.fail("is not supported", "use_sparse_mixer")
    tokens, experts = type_of(router).shape
    count, experts = node.int("k", 1), _known(node, experts)
    if not 1 <= count <= experts:
        node.fail(f"is {count}, of {experts} experts", "k")
    dtype = wide(type_of(router).dtype)
    logits = convert(router, dtype)
    shares = ops.softmax(logits, axis=1)
    back = node.array(np.arange(experts)[::-1].copy())  # of equal ones the last counts first
    _, order = ops.sort(ops.gather(logits, back, axis=1), axis=1, descending=True)
    first = ops.slice(order, starts=(0, 0), sizes=(tokens, count), steps=(1, 1))
    taken = ops.sub(number(experts - 1, "int64"), first)
    expert = ops.iota(shape=(1, 1, experts), axis=2)
    chosen = ops.reduce(ops.eq(reshape(taken, (tokens, count, 1)), expert), kind="any", axes=(1,))
    own = shares if weights is None else convert(weights, dtype)
    own = ops.select(chosen, own, number(0.0, dtype))
    if node.int("normalize_routing_weights", 0) or always_normalised:
        own = ops.div(own, ops.reduce(own, kind="sum", axes=(1,), keepdims=True))
    return own


def mixed(node: Node, chosen: ir.Value, first: Layer, second: Layer) -> ir.Value:
    """The experts' results for each token, added up as the router has chosen."""
    x, type_ = node.required(0), node.type(0)
    dtype = wide(type_.dtype)
    tokens, hidden = product(type_.shape[:-1]), type_.shape[-1]
    experts, inner, _ = (_known(node, d) for d in type_of(first.weight).shape)
    rows = reshape(convert(x, dtype), (tokens, hidden))
    weight = reshape(convert(first.weight, dtype), (experts * inner, hidden))
    h = reshape(ops.dot_general(rows, weight, lhs_contract=(1,), rhs_contract=(1,)), (tokens, experts, inner))
    if first.bias is not None:
        h = ops.add(h, convert(first.bias, dtype))
    h = activated(node, h)
    width = type_of(h).shape[2]
    counts = ops.ne(chosen, number_like(0.0, chosen))
    h = ops.mul(h, reshape(chosen, (tokens, experts, 1)))
    h = ops.select(reshape(counts, (tokens, experts, 1)), h, number(0.0, dtype))
    weight = transpose(convert(second.weight, dtype), (0, 2, 1))
    weight = reshape(weight, (experts * width, type_of(second.weight).shape[1]))
    out = ops.dot_general(reshape(h, (tokens, experts * width)), weight, lhs_contract=(1,), rhs_contract=(0,))
    if second.bias is not None:
        out = ops.add(out, ops.dot_general(chosen, convert(second.bias, dtype), lhs_contract=(1,), rhs_contract=(0,)))
    return reshape(convert(out, type_.dtype), type_.shape)


def activated(node: Node, h: ir.Value) -> ir.Value:
    kind = node.string("activation_type", "relu")
    if kind not in ACTIVATIONS:
        node.fail(f"'{kind}' is none of {', '.join(ACTIVATIONS)}", "activation_type")
    if kind == "swiglu":
        return _swiglu(node, h)
    node.no_effect(
        "activation_alpha", "activation_beta", "swiglu_limit", "swiglu_fusion", because="swiglu alone has them"
    )
    if kind == "gelu":
        return ops.gelu(h, approximate="tanh")
    functions = {"relu": ops.relu, "silu": ops.silu}
    return functions[kind](h) if kind in functions else h


def _swiglu(node: Node, h: ir.Value) -> ir.Value:
    """g sigmoid(alpha g) (l + beta) of gates g and factors l, interleaved or concatenated in [t, e, 2 i], both clamped."""
    fusion = node.int("swiglu_fusion", 0)
    if fusion not in (1, 2):
        node.fail(f"must be 1 or 2, not {fusion}: gates of a layer of their own are not supported", "swiglu_fusion")
    tokens, experts, both = type_of(h).shape
    each, axis = _known(node, both) // 2, 3 if fusion == 1 else 2
    pairs = reshape(h, (tokens, experts, each, 2) if fusion == 1 else (tokens, experts, 2, each))
    gate, factor = (reshape(part(pairs, axis, i, 1), (tokens, experts, each)) for i in (0, 1))
    limit = node.float("swiglu_limit", None)
    if limit is not None:
        gate = ops.min(gate, number_like(limit, gate))
        factor = ops.max(ops.min(factor, number_like(limit, factor)), number_like(-limit, factor))
    factor = ops.add(factor, number_like(node.float("activation_beta", 0.0), factor))
    return ops.mul(ops.silu(gate, alpha=node.float("activation_alpha", 1.0)), factor)
