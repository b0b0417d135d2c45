"""A random graph from a seed."""

from __future__ import annotations

import numpy as np

from .graph import Graph
from .steps import STEPS
from .values import Reject

LENGTHS = (5, 8, 12, 20, 30, 45, 60)
SHAPES: tuple[list[int | str], ...] = (
    ["N", 4, 6],
    ["N", 4, 6],
    ["N", 4, "M", "L"],
    ["N", 6],
    [6, 6],
    ["M", 3, 8],
    [8],
    ["N", "M"],
    ["N", 1, 6],
    [1, "M", 4],
    ["N"],
    [1],
    [],
    ["N", 3, 8, 8],
    [2, 6, 7, 5],
    [1, 4, 9],
    [5, 1],
    ["N", "N"],
    ["N", 2, "M", 4, 3],
)
FLOATS = [np.float32] * 8 + [np.float64, np.float16]
OTHERS = [np.int64, np.int32, np.bool_, np.int8, np.uint8]


def generate(seed: int, only: frozenset[str] = frozenset(), length: int | None = None) -> Graph:
    """`only` names the steps to use; `length` is how many nodes to stop at."""
    graph = Graph(seed)
    weights = {name: weight for name, (_, weight) in STEPS.items() if not only or name in only}
    if graph.chance(0.5):  # some kinds much more often
        for name in graph.random.sample(sorted(weights), min(8, len(weights))):
            weights[name] *= 5
    for shape in graph.random.sample(SHAPES, graph.random.randint(2, 4)):
        graph.input([_size(graph, size) for size in shape], graph.choice(FLOATS))
    for probability in (0.7, 0.4):
        if graph.chance(probability):
            graph.input(list(graph.choice(SHAPES)), graph.choice(OTHERS))
    wanted: int = length or graph.choice(LENGTHS)
    for _ in range(5 * wanted):
        if len(graph.nodes) >= wanted:
            break
        name = graph.random.choices(list(weights), list(weights.values()))[0]
        attempt(graph, name)
    return graph


def attempt(graph: Graph, name: str) -> str:
    """Adds a piece; says why not, or nothing."""
    graph.begin()
    before = len(graph.values)
    try:
        STEPS[name][0](graph)
        graph.commit()
    except Reject as reason:
        del graph.values[before:]
        return str(reason)
    return ""


def _size(graph: Graph, size: int | str) -> int | str:
    return graph.choice([1, 4, 6]) if isinstance(size, str) and graph.chance(0.15) else size
