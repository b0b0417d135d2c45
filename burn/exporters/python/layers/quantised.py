"""Layers whose weights are stored as integers, and rounding to a small type and back."""

from __future__ import annotations

from typing import Any

from burn.exporters.python.graph import Node, Value
from burn.exporters.python.layers.rule import Context, Layer, pads, rule, same_or_each, single

CONV_DEFAULTS = {
    "stride": 1,
    "padding": 0,
    "output_padding": 0,
    "dilation": 1,
    "groups": 1,
    "bias": True,
    "dtype": "float32",
}


def _quantised(value: Value, role: str, context: Context) -> tuple[dict[str, Value], int | None] | None:
    """The parts of a weight that is stored as integers, and the axis along which its scales lie (None for one scale)."""
    node = value.node
    if (
        node.op != "dequantize"
        or node.attrs["block"]
        or any(o is None or not context.constant(o) for o in node.operands)
    ):
        return None
    stored, scale, zero = node.operands
    axis = node.attrs["axis"] % max(value.type.rank, 1)
    some = () if scale.type.shape == () else (value.type.shape[axis],)
    if (
        scale.type.shape != some
        or zero.type.shape != some
        or (scale.type.dtype, node.attrs["dtype"]) != ("float32",) * 2
    ):
        return None
    if not some and axis:
        return None
    parts = {f"{role}.values": stored, f"{role}.scale": scale, f"{role}.zero_point": zero}
    return parts, axis if some else None


def _quantised_bias(
    node: Node, channels: Any, per_channel: bool, context: Context, constants: dict[str, Value]
) -> tuple[list[Node], Node | None]:
    """The addition of a bias that is stored as integers."""
    add = context.only_user(node.result)
    if add is None or add.op != "add" or add.types[0] != node.types[0]:
        return [], None
    other = add.operands[1] if add.operands[0] == node.result else add.operands[0]
    absorbed = [other.node]
    if other.node.op == "reshape" and other.type.shape == (1, channels, *[1] * (node.result.type.rank - 2)):
        other = other.node.operands[0]
        absorbed.append(other.node)
    found = _quantised(other, "bias", context)
    if found is None or other.type.shape != (channels,) or other.node.operands[0].type.dtype != "int32":
        return [], None
    if (found[1] is not None) != per_channel:
        return [], None
    constants |= found[0]
    return absorbed, add


def quantised_convolution(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    found = _quantised(weight, "weight", context)
    if found is None or found[1] not in (0, None):
        return None
    attrs, (constants, axis) = node.attrs, found
    out, inside, *kernel = weight.type.shape
    adding, last = _quantised_bias(node, out, axis is not None, context, constants)
    arguments = {
        "in_channels": inside * attrs["groups"],
        "out_channels": out,
        "kernel_size": same_or_each(tuple(kernel)),
        "stride": same_or_each(attrs["strides"]),
        "padding": pads(attrs["low"], attrs["high"]),
        "dilation": same_or_each(attrs["dilations"]),
        "groups": attrs["groups"],
        "bias": last is not None,
        "per_channel": axis is not None,
        "dtype": weight.node.operands[0].type.dtype,
    }
    defaults = {**CONV_DEFAULTS, "per_channel": True, "dtype": "int8"}
    return Layer(f"nn.QuantConv{len(kernel)}d", [x], constants, arguments, defaults, [weight.node], last, adding)


def quantised_linear(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs, found = node.attrs, _quantised(weight, "weight", context)
    if found is None or weight.type.rank != 2 or attrs["dtype"] or attrs["lhs_batch"]:
        return None
    (contracted,), (constants, axis) = attrs["rhs_contract"], found
    if attrs["lhs_contract"] != (x.type.rank - 1,) or x.type.rank < 1 or axis not in (None, 1 - contracted):
        return None
    out = weight.type.shape[1 - contracted]
    adding, last = _quantised_bias(node, out, axis is not None, context, constants)
    arguments = {
        "in_features": weight.type.shape[contracted],
        "out_features": out,
        "bias": last is not None,
        "per_channel": axis is not None,
        "transposed": contracted == 0,
        "dtype": weight.node.operands[0].type.dtype,
    }
    defaults = {"bias": True, "per_channel": True, "transposed": False, "dtype": "int8"}
    return Layer("nn.QuantLinear", [x], constants, arguments, defaults, [weight.node], last, adding)


@rule("quantize")
def _fake_quantize(node: Node, context: Context) -> Layer | None:
    """Rounding to a small type and back."""
    x, scale, zero = node.operands
    back = context.only_user(node.result)
    if back is None or back.op != "dequantize" or zero is None or back.operands[0] != node.result:
        return None
    numbers_ = [v.array for v in (scale, zero, *back.operands[1:]) if v is not None]
    if len(numbers_) != 4 or any(v is None or v.shape != () for v in numbers_):
        return None
    plain = {"axis": 0, "block": 0, "saturate": True, "precision": None, "dtype": zero.type.dtype}
    same = numbers_[0] == numbers_[2] and numbers_[1] == numbers_[3] and scale.type.dtype == x.type.dtype
    if any(node.attrs[k] != v for k, v in plain.items()) or back.attrs["dtype"] != x.type.dtype or not same:
        return None
    if back.attrs["axis"] or back.attrs["block"] or scale.type.dtype != "float32":
        return None
    arguments = {"0": single(float(numbers_[0]), "float32"), "1": int(numbers_[1]), "dtype": zero.type.dtype}
    return Layer("nn.FakeQuantize", [x], {}, arguments, {"dtype": "int8"}, last=back)
