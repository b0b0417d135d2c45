"""Composites that exporters write as several ops and burn recognises."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Reject, Value
from .reduce import reduced
from .registry import step


@step(5)
def pattern(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype == np.float32 and v.rank >= 1)
    graph.choice(PATTERNS)(graph, value)


def _axis(graph: Graph, value: Value) -> list[int]:
    return [graph.choice([-1, -1, value.rank - 1, 0])]


def layer_norm(graph: Graph, value: Value) -> None:
    axes = _axis(graph, value)
    mean = reduced(graph, "ReduceMean", value, axes, 1)
    (centred,) = graph.node("Sub", value, mean)
    (square,) = graph.node("Pow", centred, np.float32(2))
    (shifted,) = graph.node("Add", reduced(graph, "ReduceMean", square, axes, 1), np.float32(1e-5))
    graph.node("Div", centred, *graph.node("Sqrt", shifted))


def softmax(graph: Graph, value: Value) -> None:
    axes = _axis(graph, value)
    (shifted,) = graph.node("Sub", value, reduced(graph, "ReduceMax", value, axes, 1))
    (powers,) = graph.node("Exp", shifted)
    graph.node("Div", powers, reduced(graph, "ReduceSum", powers, axes, 1))


def tanh_gelu(graph: Graph, value: Value) -> None:
    (square,) = graph.node("Mul", value, value)
    (cube,) = graph.node("Mul", square, value)
    (inner,) = graph.node("Add", value, *graph.node("Mul", cube, np.float32(0.044715)))
    (tanh,) = graph.node("Tanh", *graph.node("Mul", inner, np.float32(0.7978845608)))
    (gate,) = graph.node("Mul", *graph.node("Add", tanh, np.float32(1)), value)
    graph.node("Mul", gate, np.float32(0.5))


def erf_gelu(graph: Graph, value: Value) -> None:
    (erf,) = graph.node("Erf", *graph.node("Div", value, np.float32(1.41421356)))
    (gate,) = graph.node("Mul", value, *graph.node("Add", erf, np.float32(1)))
    graph.node("Mul", gate, np.float32(0.5))


def rms_norm(graph: Graph, value: Value) -> None:
    (square,) = graph.node("Mul", value, value)
    (shifted,) = graph.node("Add", reduced(graph, "ReduceMean", square, _axis(graph, value), 1), np.float32(1e-4))
    graph.node("Mul", value, *graph.node("Reciprocal", *graph.node("Sqrt", shifted)))


def silu(graph: Graph, value: Value) -> None:
    graph.node("Mul", value, *graph.node("Sigmoid", value))


def hard_swish(graph: Graph, value: Value) -> None:
    (clipped,) = graph.node("Clip", *graph.node("Add", value, np.float32(3)), np.float32(0), np.float32(6))
    graph.node("Div", *graph.node("Mul", value, clipped), np.float32(6))


def scale_shift(graph: Graph, value: Value) -> None:
    (scaled,) = graph.node("Mul", value, np.float32(1.5))
    graph.node("Relu", *graph.node("Add", scaled, np.float32(-0.25)))


def attention(graph: Graph, value: Value) -> None:
    if value.rank < 2:
        raise Reject("rank")
    order = list(range(value.rank))
    order[-2:] = order[-1], order[-2]
    (scores,) = graph.node("MatMul", value, *graph.node("Transpose", value, perm=order))
    (scaled,) = graph.node("Mul", scores, np.float32(0.3))
    graph.node("MatMul", *graph.node("Softmax", scaled, axis=-1), value)


PATTERNS = [layer_norm, softmax, tanh_gelu, erf_gelu, rms_norm, silu, hard_swish, scale_shift, attention]
