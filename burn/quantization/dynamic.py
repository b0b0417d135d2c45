"""Dynamic quantisation: activations by their own range in every run, weights in int8 by output channel. It needs no data."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
from onnx import helper

from burn.quantization.graph import Contraction, Graph
from burn.quantization.static import symmetric

KINDS = ("MatMul", "Gemm")
"""Convolutions are left to static quantisation: to find the range of an image costs more there."""


def quantize_dynamic(
    model: onnx.ModelProto, *, per_channel: bool = True, exclude: Collection[str] = ()
) -> onnx.ModelProto:
    """The model with DynamicQuantizeLinear and MatMulInteger for every matmul with a constant weight. per_channel: a scale for
    each column; exclude: names of nodes that stay in float. Raises BurnError if nothing can be quantised, or for an unknown
    node name."""
    graph = Graph(model)
    contractions = {p.node.output[0]: p for p in graph.contractions(KINDS, exclude) if is_plain(p.node)}
    nodes: list[onnx.NodeProto] = []
    quantised: dict[str, list[str]] = {}
    weights: dict[str, list[str]] = {}
    for node in graph.graph.node:
        contraction = contractions.get(node.output[0]) if node.output else None
        nodes += [node] if contraction is None else _integers(graph, contraction, quantised, weights, per_channel)
    graph.replace(nodes)
    return graph.model


def is_plain(node: onnx.NodeProto) -> bool:
    """True for a Gemm that is only a matmul and an addition."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return not given.get("transA", 0) and given.get("alpha", 1.0) == given.get("beta", 1.0) == 1.0


def _integers(
    graph: Graph,
    contraction: Contraction,
    quantised: dict[str, list[str]],
    weights: dict[str, list[str]],
    per_channel: bool,
) -> list[onnx.NodeProto]:
    """The nodes of an integer matmul. quantised: 8-bit values, scale and zero point by tensor; weights: the same by weight and
    axis."""
    node, nodes = contraction.node, []
    x, y = node.input[0], node.output[0]
    name = node.name or y
    if x not in quantised:
        quantised[x] = [graph.fresh(f"{x}_{part}") for part in ("quantized", "scale", "zero_point")]
        nodes.append(helper.make_node("DynamicQuantizeLinear", [x], quantised[x], name=f"{x}_quantize"))
    key = f"{contraction.weight}:{contraction.axis}"
    if key not in weights:
        weight = graph.array(contraction.weight)
        assert weight is not None
        whole, scale = symmetric(weight if contraction.axis == 1 else weight.T, 1 if per_channel else None)
        weights[key] = [
            graph.constant(f"{contraction.weight}_quantized", whole),
            graph.constant(f"{contraction.weight}_scale", scale),
            graph.constant(f"{contraction.weight}_zero_point", np.zeros((), np.int8)),
        ]
    values, scale, zero = quantised[x]
    right, right_scale, right_zero = weights[key]
    bias = node.input[2] if node.op_type == "Gemm" and len(node.input) > 2 and node.input[2] else None
    total, floats, both = (graph.fresh(f"{y}_{part}") for part in ("integer", "cast", "scale"))
    result = graph.fresh(f"{y}_product") if bias else y
    nodes += [
        helper.make_node("MatMulInteger", [values, right, zero, right_zero], [total], name=f"{name}_integer"),
        helper.make_node("Cast", [total], [floats], name=f"{name}_cast", to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [scale, right_scale], [both], name=f"{name}_scales"),
        helper.make_node("Mul", [floats, both], [result], name=f"{name}_scaled"),
    ]
    if bias:
        nodes.append(helper.make_node("Add", [result, bias], [y], name=f"{name}_bias"))
    return nodes
