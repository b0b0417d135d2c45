"""Arithmetic on shapes, and values made from shapes."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from ..graph import Graph
from ..values import Value, known
from .registry import step


def has_axes(value: Value) -> bool:
    return value.rank > 0


@step(1)
def shape(graph: Graph) -> None:
    value = graph.pick(has_axes)
    bounds = {}
    if graph.opset >= 15 and graph.chance(0.6):
        bounds = {name: graph.random.randint(-value.rank, value.rank) for name in ("start", "end")}
    graph.node("Shape", value, **bounds)


@step(0.5)
def size(graph: Graph) -> None:
    graph.node("Size", graph.pick(has_axes))


@step(1)
def filled(graph: Graph) -> None:
    fill = np.array([graph.choice([0, 1, 2])], graph.choice([np.float32, np.int64]))
    graph.node("ConstantOfShape", *graph.node("Shape", graph.pick(has_axes)), value=numpy_helper.from_array(fill))


@step(1)
def counted(graph: Graph) -> None:
    value = graph.pick(has_axes)
    (sizes,) = graph.node("Shape", value)
    (limit,) = graph.node("Gather", sizes, np.asarray(graph.random.randrange(value.rank), np.int64))
    graph.node("Range", np.asarray(graph.choice([0, 1]), np.int64), limit, np.asarray(graph.choice([1, 2]), np.int64))


@step(1)
def constant(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank > 0 and None not in v.dims)
    graph.node("Constant", value=numpy_helper.from_array(graph.numbers(known(value.dims), value.dtype)))
