"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Array
from .registry import step

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@step(1)
def recurrent(graph: Graph) -> None:
    op = graph.choice(list(GATES))
    value = graph.pick(lambda v: v.dtype == np.float32 and v.rank == 3 and bool(v.dims[2]) and not v.empty)
    hidden, direction = graph.choice([1, 3, 8]), graph.choice(["forward", "reverse", "bidirectional"])
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[op] * hidden

    def weight(*shape: int) -> Array:
        return graph.numbers(shape, np.float32, "normal") * np.float32(0.5)

    operands = [value, weight(ways, gates, value.dims[2] or 1), weight(ways, gates, hidden)]
    if graph.chance(0.6):
        operands.append(weight(ways, 2 * gates))
    reset = graph.choice([0, 1]) if op == "GRU" else None
    outputs = graph.choice([1, 2, 3 if op == "LSTM" else 2])
    graph.node(op, *operands, outputs=outputs, hidden_size=hidden, direction=direction, linear_before_reset=reset)
