"""Quantised numbers."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Value, known
from .registry import step


def plain(value: Value) -> bool:
    return value.dtype == np.float32


@step(1)
def dynamic(graph: Graph) -> None:
    graph.node("DynamicQuantizeLinear", graph.pick(plain), outputs=3)


@step(3)
def static(graph: Graph) -> None:
    value, dtype = graph.pick(plain), graph.choice([np.int8, np.uint8])
    fixed = [axis for axis, size in enumerate(value.dims) if size]
    axes = (
        [graph.choice(fixed)] if fixed and graph.chance(0.3) else []
    )  # a scale for each index along it, or a single one
    shape = known([value.dims[axis] for axis in axes])
    axis = axes[0] if axes else None
    scale = np.asarray(graph.rng.choice([0.25, 0.1, 0.5, 0.013], shape), np.float32)
    zero = np.asarray(graph.rng.integers(0, 20, shape), dtype)
    (small,) = graph.node("QuantizeLinear", value, scale, zero, axis=axis)
    if graph.chance(0.8):
        graph.node("DequantizeLinear", small, scale, zero, axis=axis)


@step(0.5)
def dequantize(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype in (np.int8, np.uint8))
    scale = np.asarray(graph.choice([0.25, 0.1, 2.0]), np.float32)
    graph.node("DequantizeLinear", value, scale, np.asarray(graph.random.randint(0, 20), value.dtype))
