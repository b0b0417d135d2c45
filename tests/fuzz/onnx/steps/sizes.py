"""Arithmetic on shapes, and values made from shapes."""

from __future__ import annotations

from typing import Any

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
    bounds: dict[str, Any] = {}
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


@step(1)
def counted_by_data(graph: Graph) -> None:
    """A range whose end is an element, or how many elements fulfil a condition."""
    if graph.chance(0.5):
        value = graph.pick(lambda v: v.dtype in (np.int32, np.int64) and v.rank > 0 and v.exact)
        flat = graph.node("Cast", *graph.node("Reshape", value, np.array([-1], np.int64)), to=7)
        (sum_,) = graph.node("ReduceSum", *flat, np.array([0], np.int64), keepdims=0)
        (limit,) = graph.node("Mod", sum_, np.asarray(9, np.int64))
    else:
        value = graph.pick(lambda v: v.rank > 0 and v.dtype in (np.float32, bool))
        (indices,) = graph.node("NonZero", value)
        (sizes,) = graph.node("Shape", indices)
        (limit,) = graph.node("Gather", sizes, np.asarray(1, np.int64))
    step_ = graph.choice([1, 1, 2, -1])
    start = np.asarray(graph.choice([0, 1, -2] if step_ > 0 else [7, 12]), np.int64)
    (numbers,) = graph.node("Range", start, limit, np.asarray(step_, np.int64))
    if graph.chance(0.5):
        bounds = np.array([-1], np.int64), np.array([-(2**31)], np.int64), np.array([0], np.int64)
        graph.node("Slice", numbers, *bounds, np.array([-1], np.int64))


@step(1)
def passed(graph: Graph) -> None:
    """One value under two names."""
    value = graph.pick()
    graph.node("Identity", value)
    graph.node("Identity", value)


@step(1)
def without_elements(graph: Graph) -> None:
    """A constant without elements, alone or before others."""
    value = graph.pick(lambda v: v.rank > 0 and None not in v.dims[1:] and v.dtype in (np.float32, np.int64, bool))
    none = np.zeros((0, *known(value.dims[1:])), value.dtype)
    (joined,) = graph.node("Concat", none, value, axis=0)
    graph.node("Concat", joined, none, axis=0)
