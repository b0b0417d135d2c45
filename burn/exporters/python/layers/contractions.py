"""Convolutions, linear layers and embeddings, with their biases."""

from __future__ import annotations

from typing import Any

from burn.dialect.types import FLOATS
from burn.exporters.python.graph import Node, Value
from burn.exporters.python.layers.quantised import CONV_DEFAULTS, quantised_convolution, quantised_linear
from burn.exporters.python.layers.rule import Context, Layer, numbers, pads, rule, same_or_each


@rule("conv", "conv_transpose")
def _convolution(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs = node.attrs
    plain = attrs.get("layout", "first") == "first" and attrs.get("dtype") is None
    transposed = node.op == "conv_transpose"
    if plain and weight.node.op == "dequantize" and not transposed and numbers(attrs["low"], attrs["high"]):
        return quantised_convolution(node, context)
    if not plain or not context.constant(weight) or not numbers(attrs["low"], attrs["high"]):
        return None
    first, second, *kernel = weight.type.shape
    channels = (first, second * attrs["groups"]) if transposed else (second * attrs["groups"], first)
    constants = {"weight": weight}
    adding, last = _bias(node, channels[1], context, constants)
    arguments = {
        "in_channels": channels[0],
        "out_channels": channels[1],
        "kernel_size": same_or_each(tuple(kernel)),
        "stride": same_or_each(attrs["strides"]),
        "padding": pads(attrs["low"], attrs["high"]),
        "dilation": same_or_each(attrs["dilations"]),
        "groups": attrs["groups"],
        "bias": "bias" in constants,
        "dtype": weight.type.dtype,
    }
    if transposed:
        arguments["output_padding"] = same_or_each(attrs["extra"])
    name = f"nn.Conv{'Transpose' if transposed else ''}{len(kernel)}d"
    return Layer(name, [x], constants, arguments, CONV_DEFAULTS, last=last, adding=adding)


def _bias(node: Node, channels: Any, context: Context, constants: dict[str, Value]) -> tuple[list[Node], Node | None]:
    """The addition of one number a channel (axis 1) after a node, if that is all that its result is for."""
    add = context.only_user(node.result)
    if add is None or add.op != "add":
        return [], None
    other = add.operands[1] if add.operands[0] == node.result else add.operands[0]
    shape = (1, channels, *[1] * (node.result.type.rank - 2))
    view = other.node
    if view.op != "reshape" or other.type.shape != shape or context.uses[other] != 1:
        return [], None
    bias = view.operands[0]
    if not context.constant(bias) or bias.type.shape != (channels,) or add.types[0] != node.types[0]:
        return [], None
    constants["bias"] = bias
    return [view], add


@rule("dot_general")
def _linear(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs = node.attrs
    if weight.node.op == "dequantize":
        return quantised_linear(node, context)
    if not context.constant(weight) or weight.type.rank != 2 or attrs["dtype"] or weight.type.dtype not in FLOATS:
        return None
    if attrs["lhs_batch"] or attrs["lhs_contract"] != (x.type.rank - 1,) or x.type.rank < 1 or attrs["sums"]:
        return None
    (axis,) = attrs["rhs_contract"]
    constants, last = {"weight": weight}, None
    out = weight.type.shape[1 - axis]
    add = context.only_user(node.result)
    if add is not None and add.op == "add":
        other = add.operands[1] if add.operands[0] == node.result else add.operands[0]
        if context.constant(other) and other.type.shape == (out,) and add.types[0] == node.types[0]:
            constants["bias"], last = other, add
    arguments = {
        "in_features": weight.type.shape[axis],
        "out_features": out,
        "bias": "bias" in constants,
        "transposed": axis == 0,
        "dtype": weight.type.dtype,
    }
    defaults = {"bias": True, "transposed": False, "dtype": "float32"}
    return Layer("nn.Linear", [x], constants, arguments, defaults, last=last)


@rule("gather")
def _embedding(node: Node, context: Context) -> Layer | None:
    table, indices = node.operands
    if not context.constant(table) or table.type.rank != 2 or node.attrs["axis"] != 0 or table.type.dtype not in FLOATS:
        return None
    own = indices.node if indices.node.op == "from_start" and context.only_user(indices) is node else None
    arguments = {
        "count": table.type.shape[0],
        "dim": table.type.shape[1],
        "dtype": table.type.dtype,
        "wrap": own is None,
    }
    operand, absorbed = (indices, []) if own is None else (own.operands[0], [own])
    return Layer("nn.Embedding", [operand], {"weight": table}, arguments, {"dtype": "float32", "wrap": False}, absorbed)
