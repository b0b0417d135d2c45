"""ONNX Runtime, without its optimisations: one operator after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime

from .values import Array

onnxruntime.set_default_logger_severity(4)


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def outputs(session: onnxruntime.InferenceSession, feed: dict[str, Array]) -> dict[str, Any]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def free_names(nodes: list[onnx.NodeProto], known: frozenset[str] = frozenset()) -> Iterator[str]:
    """The values that nodes read and do not make, those of their bodies among them."""
    inner = set(known)
    for node in nodes:
        yield from (name for name in node.input if name and name not in inner)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                graph = attribute.g
                own = {value.name for value in graph.input} | {constant.name for constant in graph.initializer}
                yield from free_names(list(graph.node), frozenset(inner | own))
                made = {name for body_node in graph.node for name in body_node.output}
                yield from (value.name for value in graph.output if value.name not in made | own | inner)
        inner |= set(node.output)


def op_types(nodes: list[onnx.NodeProto]) -> Iterator[str]:
    """Of nodes and those of their bodies."""
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from op_types(list(attribute.g.node))


def domains(nodes: list[onnx.NodeProto]) -> Iterator[str]:
    """Of nodes and those of their bodies."""
    for node in nodes:
        yield node.domain
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from domains(list(attribute.g.node))
