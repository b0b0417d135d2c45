"""Reductions, and what looks along an axis."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Value, is_float, is_number, words
from .registry import negative, step

FLOAT = words(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceLogSum"
)
INTEGER = words("ReduceSum ReduceMax ReduceMin ReduceProd ReduceSumSquare ReduceL1")
WITH_AXIS_TYPES = (np.float32, np.float64, np.int32, np.int64)


def some_axes(graph: Graph, rank: int, most: int = 3) -> list[int]:
    axes = graph.random.sample(range(rank), graph.random.randint(1, min(rank, most)))
    return [negative(graph, axis, rank) for axis in axes]


def reduced(
    graph: Graph, op: str, value: Value | str, axes: list[int] | None, keep: int, noop: int | None = None
) -> str:
    """The axes are an attribute or an operand, as the op's version has it."""
    if op == "ReduceSum" or graph.opset >= 18:
        operand = None if axes is None else np.array(axes, np.int64)
        return graph.node(op, value, operand, keepdims=keep, noop_with_empty_axes=noop)[0]
    return graph.node(op, value, axes=axes, keepdims=keep)[0]


@step(9)
def reduce(graph: Graph) -> None:
    value = graph.pick(lambda v: is_number(v) and v.rank > 0)
    axes = some_axes(graph, value.rank) if graph.chance(0.85) else None
    noop = 1 if axes is None and graph.chance(0.4) else None
    reduced(graph, graph.choice(FLOAT if is_float(value) else INTEGER), value, axes, graph.choice([0, 1]), noop)


def any_axis(graph: Graph, value: Value) -> int:
    return graph.random.randint(-value.rank, value.rank - 1)


@step(2)
def best(graph: Graph) -> None:
    value = graph.pick(lambda v: is_number(v) and v.rank > 0)
    last = graph.choice([0, 1])
    graph.node(
        graph.choice(["ArgMax", "ArgMin"]),
        value,
        axis=any_axis(graph, value),
        keepdims=graph.choice([0, 1]),
        select_last_index=last,
    )


@step(2)
def running_sum(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype in WITH_AXIS_TYPES and v.rank > 0)
    axis = np.asarray(any_axis(graph, value), graph.choice([np.int64, np.int32]))
    graph.node("CumSum", value, axis, exclusive=graph.choice([0, 1]), reverse=graph.choice([0, 1]))


@step(2)
def top(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype in WITH_AXIS_TYPES and v.rank > 0)
    count = np.array([graph.choice([1, 2, 3, 1])], np.int64)
    graph.node("TopK", value, count, outputs=2, axis=any_axis(graph, value), largest=graph.choice([0, 1]), sorted=1)


@step(3)
def softmax(graph: Graph) -> None:
    value = graph.pick(lambda v: is_float(v) and v.rank > 0)
    graph.node(graph.choice(["Softmax", "Softmax", "LogSoftmax", "Hardmax"]), value, axis=any_axis(graph, value))
