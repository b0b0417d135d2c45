"""Normalisations and activations that have parameters."""

from __future__ import annotations

from typing import Any

from burn.dialect.types import FLOATS
from burn.exporters.python.graph import Node, Value
from burn.exporters.python.layers.rule import Context, Layer, numbers, rule, single

EPS = {"eps": 1e-5, "dtype": "float32"}


@rule("layer_norm", "rms_norm")
def _over_last_axes(node: Node, context: Context) -> Layer | None:
    operands: list[Any] = [*node.operands, None]
    x, scale, bias = operands[:3]
    shape = x.type.shape[node.attrs["axis"] % x.type.rank :]
    if scale is None and bias is None and not numbers(shape):
        return None
    for parameter in (scale, bias):
        if parameter is not None and not (context.constant(parameter) and parameter.type.shape == shape):
            return None
    if (scale is None and bias is not None) or _mixed(scale, bias):
        return None
    constants = {k: v for k, v in (("weight", scale), ("bias", bias)) if v is not None}
    arguments = {
        "normalized_shape": shape[0] if len(shape) == 1 else tuple(shape),
        "eps": single(node.attrs["epsilon"], x.type.dtype),
        "affine": scale is not None,
        "bias": bias is not None or scale is None,
        "dtype": scale.type.dtype if scale is not None else "float32",
    }
    defaults = {**EPS, "affine": True, "bias": True}
    if node.op == "rms_norm":
        del arguments["bias"]
    return Layer("nn.LayerNorm" if node.op == "layer_norm" else "nn.RMSNorm", [x], constants, arguments, defaults)


def _mixed(*parameters: Value | None) -> bool:
    """True if the parameters differ from one another in their element types."""
    return len({p.type.dtype for p in parameters if p is not None}) > 1


@rule("batch_norm")
def _batch_norm(node: Node, context: Context) -> Layer | None:
    x, *parameters = node.operands
    if not all(map(context.constant, parameters)) or _mixed(*parameters) or not 2 <= x.type.rank <= 5:
        return None
    constants: dict[str, Any] = dict(zip(("weight", "bias", "running_mean", "running_var"), parameters, strict=True))
    arguments = {
        "num_features": parameters[0].type.shape[0],
        "eps": single(node.attrs["epsilon"], x.type.dtype),
        "dtype": parameters[0].type.dtype,
    }
    return Layer(f"nn.BatchNorm{max(x.type.rank - 2, 1)}d", [x], constants, arguments, EPS)


@rule("group_norm", "instance_norm")
def _by_channel(node: Node, context: Context) -> Layer | None:
    x, scale, bias = node.operands
    channels = x.type.shape[1]
    affine = scale is not None
    if affine != (bias is not None) or not isinstance(channels, int):
        return None
    if affine and not (context.constant(scale) and context.constant(bias)):
        return None
    if _mixed(scale, bias):
        return None
    constants = {"weight": scale, "bias": bias} if affine else {}
    name = "nn.GroupNorm" if node.op == "group_norm" else "nn.InstanceNorm"
    arguments: dict[str, Any] = {"num_groups": node.attrs["groups"]} if node.op == "group_norm" else {}
    arguments |= {
        "num_channels" if arguments else "num_features": channels,
        "eps": single(node.attrs["epsilon"], x.type.dtype),
        "affine": affine,
        "dtype": scale.type.dtype if affine else "float32",
    }
    return Layer(name, [x], constants, arguments, {**EPS, "affine": True})


@rule("prelu")
def _prelu(node: Node, context: Context) -> Layer | None:
    x, slope = node.operands
    if not context.constant(slope) or not slope.type.shape or slope.type.dtype not in FLOATS:
        return None
    arguments = {str(i): d for i, d in enumerate(slope.type.shape)} | {"dtype": slope.type.dtype}
    return Layer("nn.PReLU", [x], {"weight": slope}, arguments, {"dtype": "float32"})
