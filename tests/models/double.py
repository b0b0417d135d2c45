"""A model with every float32 as a float64: what its file computes but for rounding. Enter at `widened`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

NARROW = {("Resize", 2)}
"""Operands, by op and number, that ONNX allows as float32 only."""

TYPES = {("Cast", "to"), ("LayerNormalization", "stash_type")}
"""Attributes that hold an element type."""


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float64 inputs, outputs and inner values. Changes `model`."""
    for graph in _graphs(model.graph):
        kept = _kept(graph)
        tensors = [_wide(t) if t.name not in kept else t for t in graph.initializer]
        del graph.initializer[:]
        graph.initializer.extend(tensors)
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type.tensor_type
            if kind.elem_type == TensorProto.FLOAT and value.name not in kept:
                kind.elem_type = TensorProto.DOUBLE
        for node in graph.node:
            _widen(node, kept)
    return model


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _kept(graph: GraphProto) -> set[str]:
    """Names of the constants that stay float32."""
    return {n.input[i] for n in graph.node for op, i in NARROW if n.op_type == op and len(n.input) > i}


def _wide(tensor: TensorProto) -> TensorProto:
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def _widen(node: NodeProto, kept: set[str]) -> None:
    if node.op_type == "Constant" and node.output[0] in kept:
        return
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            attribute.t.CopyFrom(_wide(attribute.t))
        elif (node.op_type, attribute.name) in TYPES and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            given = np.array(attribute.f if attribute.name == "value_float" else list(attribute.floats), np.float64)
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(given)))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    if node.op_type == "LayerNormalization" and all(a.name != "stash_type" for a in node.attribute):
        node.attribute.append(helper.make_attribute("stash_type", TensorProto.DOUBLE))
