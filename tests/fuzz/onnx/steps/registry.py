"""The steps and how often each is tried."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph

Step = Callable[[Graph], None]
STEPS: dict[str, tuple[Step, float]] = {}


def step(weight: float) -> Callable[[Step], Step]:
    def add(function: Step) -> Step:
        STEPS[function.__name__] = (function, weight)
        return function

    return add


def negative(graph: Graph, axis: int, rank: int, probability: float = 0.4) -> int:
    """The axis, now and then counted from the end."""
    return axis - rank if graph.chance(probability) else axis
