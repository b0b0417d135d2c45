"""Normalizations."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Array, Reject, Value, known
from .registry import negative, step


def rows(value: Value) -> bool:
    return value.dtype == np.float32 and value.rank >= 2


def weight(graph: Graph, shape: list[int], positive: bool = False) -> Array:
    if positive:
        return np.abs(graph.numbers(shape, np.float32, "normal")) + np.float32(0.1)
    return graph.numbers(shape, np.float32)


@step(2)
def last_axes(graph: Graph) -> None:
    value, op = graph.pick(rows), graph.choice(["LayerNormalization", "RMSNormalization"])
    axis = graph.random.randint(1, value.rank - 1)
    shape = known(value.dims[axis:])
    bias = weight(graph, shape) if op == "LayerNormalization" and graph.chance(0.7) else None
    axis_given = negative(graph, axis, value.rank, 0.5)
    graph.node(op, value, weight(graph, shape), bias, axis=axis_given, epsilon=graph.choice([None, 1e-3]))


@step(2)
def channels(graph: Graph) -> None:
    value = graph.pick(rows)
    count = value.dims[1]
    if not count:
        raise Reject("a size varies")
    pair = [weight(graph, [count]), weight(graph, [count])]
    op = graph.choice(["BatchNormalization", "InstanceNormalization", "GroupNormalization"])
    if op == "BatchNormalization":
        graph.node(op, value, *pair, weight(graph, [count]), weight(graph, [count], positive=True))
    elif op == "InstanceNormalization":
        graph.node(op, value, *pair)
    elif graph.opset >= 21:
        graph.node(op, value, *pair, num_groups=graph.choice([n for n in range(1, count + 1) if count % n == 0]))
    else:
        raise Reject("version")


@step(1)
def without_weights(graph: Graph) -> None:
    value = graph.pick(rows)
    axes = sorted(graph.random.sample(range(value.rank), graph.random.randint(1, value.rank)))
    op, attributes = graph.choice(
        [
            ("LpNormalization", {"axis": graph.random.randint(-value.rank, value.rank - 1), "p": graph.choice([1, 2])}),
            ("MeanVarianceNormalization", {"axes": axes}),
            ("LRN", {"size": graph.choice([1, 2, 3, 5]), "alpha": 0.1, "beta": 0.6, "bias": 1.2}),
        ]
    )
    graph.node(op, value, **attributes)
