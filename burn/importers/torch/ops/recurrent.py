"""Recurrent networks: torch's LSTM, GRU and RNN as the composites of `burn.dialect.recurrent`.

torch's decompositions write down every step. As a composite a long sequence is a loop, so that the size of a program does not
grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import part, reshape, transpose
from burn.dialect.mlir import ir
from burn.dialect.recurrent import loop_over
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.factory import dropped

LSTM_GATES, GRU_GATES, RNN_GATES = (0, 3, 1, 2), (1, 0, 2), (0,)
"""For each gate in the order of burn's ops, its number in torch's weights."""
DIRECTIONS = {1: "forward", 2: "bidirectional"}

Layer = Callable[[ir.Value, "Sequence[ir.Value]", "list[ir.Value]"], "list[ir.Value]"]
"""One layer: of x [steps, batch, in], the weights of all directions, the first states [directions, batch, hidden]. Returns the
outputs [steps, directions, batch, hidden] and the last states."""


@dataclass(frozen=True)
class _Network:
    """The arguments that torch's recurrent operators share. `dropout` is that between layers."""

    node: Node
    x: ir.Value
    weights: Sequence[ir.Value]
    layers: int
    dropout: float
    directions: int
    batch_first: bool

    @property
    def each(self) -> int:
        """Weights of a direction of a layer: w_ih, w_hh, with biases b_ih and b_hh, then w_hr of projections."""
        return len(self.weights) // (self.layers * self.directions)

    def built(self, layer: Layer, states: Sequence[ir.Value]) -> list[ir.Value]:
        """states: the first ones of all layers, [layers * directions, batch, hidden]."""
        y, count = transpose(self.x, (1, 0, 2)) if self.batch_first else self.x, self.directions
        finals: list[list[ir.Value]] = []
        for number in range(self.layers):
            if number and self.dropout:
                y = dropped(self.node, y, self.dropout)[0]
            weights = self.weights[number * count * self.each :][: count * self.each]
            outputs, *last = layer(y, weights, [part(s, 0, number * count, count) for s in states])
            finals.append(last)
            steps, _, batch, hidden = type_of(outputs).shape
            y = reshape(transpose(outputs, (0, 2, 1, 3)), (steps, batch, count * hidden))
        ends = [last[0] if len(last) == 1 else ops.concat(list(last), axis=0) for last in zip(*finals, strict=True)]
        return [transpose(y, (1, 0, 2)) if self.batch_first else y, *ends]


@aten("lstm.input")
def lstm(
    node: Node,
    x: ir.Value,
    states: Sequence[ir.Value],
    weights: Sequence[ir.Value],
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[ir.Value]:
    network = _Network(node, x, weights, layers, dropout * train, 1 + bidirectional, batch_first)

    def layer(x: ir.Value, weights: Sequence[ir.Value], states: list[ir.Value]) -> list[ir.Value]:
        if network.each == 3 + 2 * biased:
            return _projected(x, weights, states, network.directions)
        w, r, b = _stacked(weights, LSTM_GATES, network.directions)
        return ops.lstm(x, w, r, b, None, *states, None, direction=DIRECTIONS[network.directions])

    return network.built(layer, states)


@aten("gru.input")
def gru(
    node: Node,
    x: ir.Value,
    state: ir.Value,
    weights: Sequence[ir.Value],
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[ir.Value]:
    network = _Network(node, x, weights, layers, dropout * train, 1 + bidirectional, batch_first)

    def layer(x: ir.Value, weights: Sequence[ir.Value], states: list[ir.Value]) -> list[ir.Value]:
        w, r, b = _stacked(weights, GRU_GATES, network.directions)
        return ops.gru(x, w, r, b, None, *states, direction=DIRECTIONS[network.directions], reset_after=True)

    return network.built(layer, [state])


@aten("rnn_tanh.input", "rnn_relu.input")
def rnn(
    node: Node,
    x: ir.Value,
    state: ir.Value,
    weights: Sequence[ir.Value],
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[ir.Value]:
    network = _Network(node, x, weights, layers, dropout * train, 1 + bidirectional, batch_first)
    functions = ("relu" if "relu" in node.op else "tanh",) * network.directions

    def layer(x: ir.Value, weights: Sequence[ir.Value], states: list[ir.Value]) -> list[ir.Value]:
        w, r, b = _stacked(weights, RNN_GATES, network.directions)
        direction = DIRECTIONS[network.directions]
        return ops.rnn(x, w, r, b, None, *states, direction=direction, activations=functions)

    return network.built(layer, [state])


def _stacked(
    weights: Sequence[ir.Value], order: tuple[int, ...], directions: int
) -> tuple[ir.Value, ir.Value, ir.Value | None]:
    """torch's weights of a layer as the operands w, r and b of burn's ops: gates in their order, one axis of directions."""
    each = len(weights) // directions
    rows = [[_reordered(w, order) for w in weights[i * each : (i + 1) * each]] for i in range(directions)]
    biases = [ops.concat(row[2:], axis=0) for row in rows] if each > 2 else []
    w, r = (_joined([row[i] for row in rows], 0) for i in range(2))
    return w, r, _joined(biases, 0) if biases else None


def _reordered(weight: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """Rows of a weight or bias, gate by gate."""
    if order == tuple(range(len(order))):
        return weight
    rows = type_of(weight).shape[0]
    assert isinstance(rows, int)
    size = rows // len(order)
    return ops.concat([part(weight, 0, gate * size, size) for gate in order], axis=0)


def _projected(x: ir.Value, weights: Sequence[ir.Value], states: list[ir.Value], directions: int) -> list[ir.Value]:
    """A layer of an LSTM whose h is a projection: h' = (o tanh(c')) w_hr^T. Gates in torch's order i, f, g, o. Source:
    arXiv:1402.1128."""
    each = len(weights) // directions
    found = [
        _projected_direction(x, weights[i * each : (i + 1) * each], [_row(s, i) for s in states], bool(i))
        for i in range(directions)
    ]
    return [_joined(values, axis) for values, axis in zip(zip(*found, strict=True), (1, 0, 0), strict=True)]


def _joined(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Values of equal shapes with a new axis of directions."""
    rows = [reshape(v, (*(shape := type_of(v).shape)[:axis], 1, *shape[axis:])) for v in values]
    return rows[0] if len(rows) == 1 else ops.concat(rows, axis=axis)


def _projected_direction(
    x: ir.Value, weights: Sequence[ir.Value], states: list[ir.Value], reverse: bool
) -> tuple[ir.Value, ...]:
    """Outputs [steps, batch, size of h], the last h and c."""
    of_x, of_h, *biases, projection = weights
    projected = ops.dot_general(x, of_x, lhs_contract=(2,), rhs_contract=(1,))
    for bias in biases:
        projected = ops.add(projected, bias)
    hidden = type_of(states[1]).shape[1]

    def step(time: ir.Value, states: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        h, c = states
        gates = ops.add(
            ops.gather(projected, time, axis=0), ops.dot_general(h, of_h, lhs_contract=(1,), rhs_contract=(1,))
        )
        i, f, g, o = (part(gates, 1, number * hidden, hidden) for number in range(4))
        new = ops.add(ops.mul(ops.sigmoid(f), c), ops.mul(ops.sigmoid(i), ops.tanh(g)))
        out = ops.dot_general(ops.mul(ops.sigmoid(o), ops.tanh(new)), projection, lhs_contract=(1,), rhs_contract=(1,))
        return [out, new], out

    outputs, last = loop_over(type_of(x).shape[0], states, type_of(states[0]), step, reverse)
    return outputs, *last


def _row(x: ir.Value, index: int) -> ir.Value:
    return reshape(part(x, 0, index, 1), type_of(x).shape[1:])
