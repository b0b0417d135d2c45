"""Recurrent layers: the ONNX nodes as the composites of `burn.dialect.recurrent`."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import transpose
from burn.dialect.mlir import ir
from burn.dialect.recurrent import DIRECTIONS
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op


def common(node: Node, recurrent: ir.Value | None = None) -> dict[str, Any]:
    """The attributes that all three have; their operands are x, w, r, b, lengths, first states and peepholes.

    recurrent: the recurrence weights, where they are not operand 2 as it is."""
    node.need_ranks(3, 3, 3, 2, 1, 3, 3, 2)
    direction = node.string("direction", "forward")
    if direction not in DIRECTIONS:
        node.fail(f"'{direction}' is none of {', '.join(DIRECTIONS)}", "direction")
    hidden = node.int("hidden_size", None)
    actual = (node.type(2) if recurrent is None else type_of(recurrent)).shape[-1]
    if hidden is not None and isinstance(actual, int) and hidden != actual:
        node.fail(f"is {hidden}, but the recurrence weights have {actual}", "hidden_size")
    if node.opset < 7 and node.int("output_sequence", 0) == 0 and node.needs_output(0):
        node.fail("Y is asked for without output_sequence", "output_sequence")
    return {
        "direction": direction,
        "activations": node.strings("activations", ()),
        "alphas": node.floats("activation_alpha", ()),
        "betas": node.floats("activation_beta", ()),
        "clip": node.float("clip", 0.0),
    }


def batch_first(node: Node, x: ir.Value | None) -> ir.Value | None:
    """[batch, steps or directions, ..] as [steps or directions, batch, ..] under layout 1, and the converse."""
    return transpose(x, (1, 0, 2)) if x is not None and node.int("layout", 0) == 1 else x


def results(node: Node, outputs: list[ir.Value]) -> list[ir.Value]:
    """Y [steps, directions, batch, hidden] and the final states, in the layout that the node has."""
    if node.int("layout", 0) != 1:
        return outputs
    return [transpose(outputs[0], (2, 0, 1, 3)), *(transpose(state, (1, 0, 2)) for state in outputs[1:])]


@onnx_op("RNN")
def rnn(node: Node) -> list[ir.Value]:
    options = common(node)
    x, h = batch_first(node, node.required(0)), batch_first(node, node.input(5))
    return results(node, ops.rnn(x, node.input(1), node.input(2), node.input(3), node.input(4), h, **options))


@onnx_op("GRU")
def gru(node: Node) -> list[ir.Value]:
    options = {**common(node), "reset_after": node.int("linear_before_reset", 0) == 1}
    x, h = batch_first(node, node.required(0)), batch_first(node, node.input(5))
    return results(node, ops.gru(x, node.input(1), node.input(2), node.input(3), node.input(4), h, **options))


@onnx_op("LSTM")
def lstm(node: Node) -> list[ir.Value]:
    options = {**common(node), "couple": node.int("input_forget", 0) == 1}
    x, h, c = (batch_first(node, node.input(i)) for i in (0, 5, 6))
    operands = (x, node.input(1), node.input(2), node.input(3), node.input(4), h, c, node.input(7))
    return results(node, ops.lstm(*operands, **options))
