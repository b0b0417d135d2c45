"""Recurrent layers."""

from __future__ import annotations

from burn.dialect.recurrent import DIRECTIONS
from burn.exporters.python.graph import Node
from burn.exporters.python.layers.rule import Context, Layer, rule


@rule("lstm", "gru", "rnn")
def _recurrent(node: Node, context: Context) -> Layer | None:
    x, w, r, b, lengths, *rest = node.operands
    states, peephole = (rest[:2], rest[2]) if node.op == "lstm" else (rest, None)
    constants = {"weight_input": w, "weight_hidden": r, "bias": b, "peephole": peephole}
    constants = {k: v for k, v in constants.items() if v is not None}
    if not all(map(context.constant, constants.values())):
        return None
    attrs = dict(node.attrs)
    arguments = {
        "input_size": w.type.shape[2],
        "hidden_size": r.type.shape[2],
        "direction": attrs.pop("direction"),
        "bias": b is not None,
        "activations": attrs.pop("activations"),
        "alphas": attrs.pop("alphas"),
        "betas": attrs.pop("betas"),
        "clip": attrs.pop("clip"),
        "dtype": w.type.dtype,
        **attrs,
    }
    defaults = {
        "direction": "forward", "bias": True, "activations": (), "alphas": (), "betas": (), "clip": 0.0,
        "dtype": "float32", "couple": False, "reset_after": False, "peephole": False,
    }  # fmt: skip
    if node.op == "lstm":
        arguments["peephole"] = peephole is not None
    assert arguments["direction"] in DIRECTIONS
    return Layer(f"nn.{node.op.upper()}", [x, *states, lengths], constants, arguments, defaults)
