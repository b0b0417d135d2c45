"""Normalisations. A missing scale or bias that ONNX requires becomes ones or zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.dialect.normalization import LayerNorm
from burn.dialect.op import Op
from burn.dialect.types import numpy_dtype, type_of
from burn.exporters.onnx.emitters import Site, emits


def _one_type(op: Op) -> bool:
    """True if scale and bias have x's element type: converting them would round."""
    return len({type_of(v).dtype for v in op.operation.operands}) == 1


def _trailing(op: Any) -> bool:
    """For a normalisation of the last axes: the parameters lie along those, which are known numbers where one is absent."""
    shape = type_of(op.x).shape[op.axis % type_of(op.x).rank :]
    given = [p for p in op.args[1:] if p is not None]
    if len(given) < len(op.args) - 1 and not all(isinstance(d, int) for d in shape):
        return isinstance(op, LayerNorm) and op.bias is None and op.scale is not None and _fits(given, shape)
    return _one_type(op) and _fits(given, shape)


def _fits(parameters: Sequence[Any], shape: tuple) -> bool:
    return all(type_of(p).shape == shape for p in parameters)


def _ones(site: Site, shape: Sequence[Any], value: float = 1.0) -> str:
    return site.graph.literal(np.full(shape, value, np.float32).astype(numpy_dtype(site.types[0].dtype)))


@emits("layer_norm", operator="LayerNormalization", when=_trailing)
def layer_norm(site: Site) -> str:
    x, scale, bias = site.inputs
    axis = site.attrs["axis"]
    rank = site.types[0].rank
    scale = scale or _ones(site, site.types[0].shape[axis % rank :])
    return site.node("LayerNormalization", x, scale, bias, axis=axis, epsilon=site.attrs["epsilon"])


@emits("rms_norm", operator="RMSNormalization", when=_trailing)
def rms_norm(site: Site) -> str:
    x, scale = site.inputs
    axis = site.attrs["axis"]
    scale = scale or _ones(site, site.types[0].shape[axis % site.types[0].rank :])
    return site.node("RMSNormalization", x, scale, axis=axis, epsilon=site.attrs["epsilon"])


@emits("batch_norm", operator="BatchNormalization", when=lambda op: type_of(op.x).rank > 1 and _one_type(op))
def batch_norm(site: Site) -> str:
    return site.node("BatchNormalization", *site.inputs, epsilon=site.attrs["epsilon"])


def _channels_known(op: Any) -> bool:
    known = isinstance(type_of(op.x).shape[1], int) or (op.scale is not None and op.bias is not None)
    return known and _one_type(op)


def _per_channel(site: Site) -> list[str]:
    x, scale, bias = site.inputs
    channels = site.types[0].shape[1:2]
    return [x, scale or _ones(site, channels), bias or _ones(site, channels, 0.0)]


@emits("instance_norm", operator="InstanceNormalization", when=_channels_known)
def instance_norm(site: Site) -> str:
    return site.node("InstanceNormalization", *_per_channel(site), epsilon=site.attrs["epsilon"])


@emits("group_norm", operator="GroupNormalization", since=21, when=_channels_known)
def group_norm(site: Site) -> str:
    """Before opset 21 scale and bias had one number a group."""
    attrs = {"num_groups": site.attrs["groups"], "epsilon": site.attrs["epsilon"]}
    return site.node("GroupNormalization", *_per_channel(site), **attrs)


@emits("lp_norm", operator="LpNormalization")
def lp_norm(site: Site) -> str:
    return site.node("LpNormalization", site.inputs[0], axis=site.attrs["axis"], p=site.attrs["p"])


@emits("lrn", operator="LRN", when=lambda op: op.size % 2 == 1 and type_of(op.x).rank == 4)
def lrn(site: Site) -> str:
    """Of images: runtimes take no other ranks."""
    return site.node("LRN", site.inputs[0], **{k: site.attrs[k] for k in ("size", "alpha", "beta", "bias")})
