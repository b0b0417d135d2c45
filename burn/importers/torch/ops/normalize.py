"""Normalisations. Those that burn has whole stay whole; the statistics that training saves are built beside them."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, mean, number, number_like, reshape, wide
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, type_of
from burn.importers.torch.node import Node, aten


@aten("layer_norm.default")
def layer_norm(
    node: Node, x: ir.Value, shape: list[int], weight: Any, bias: Any, epsilon: float, cudnn: Any
) -> ir.Value:
    return ops.layer_norm(x, weight, bias, axis=type_of(x).rank - len(shape), epsilon=epsilon)


@aten("native_layer_norm.default")
def native_layer_norm(node: Node, x: ir.Value, shape: list[int], weight: Any, bias: Any, epsilon: float) -> list[Any]:
    axis = type_of(x).rank - len(shape)
    result = ops.layer_norm(x, weight, bias, axis=axis, epsilon=epsilon)
    axes = tuple(range(axis, type_of(x).rank))
    return [result, *_statistics(node, x, axes, epsilon)]


def _statistics(node: Node, x: ir.Value, axes: tuple[int, ...], epsilon: float) -> list[Any]:
    """The mean and 1 / sqrt(variance + epsilon), where anything reads them."""
    if not (node.uses(1) or node.uses(2)):
        return [None, None]
    value = convert(x, wide(type_of(x).dtype))
    centre = mean(value, axes, keepdims=True)
    centred = ops.sub(value, centre)
    spread = mean(ops.mul(centred, centred), axes, keepdims=True)
    inverse = ops.rsqrt(ops.add(spread, number_like(epsilon, value)))
    types = (node.result_type(1), node.result_type(2))
    return [reshape(convert(v, t.dtype), t.shape) for v, t in zip((centre, inverse), types, strict=True)]


@aten("rms_norm.default")
def rms_norm(node: Node, x: ir.Value, shape: list[int], weight: Any = None, epsilon: float | None = None) -> ir.Value:
    axis = type_of(x).rank - len(shape)
    if type_of(x).dtype in PARTS:  # of squares, not of squared magnitudes, as in torch
        scale = mean(ops.mul(x, x), tuple(range(axis, type_of(x).rank)), keepdims=True)
        result = ops.mul(x, ops.rsqrt(ops.add(scale, number_like(_epsilon(x, epsilon), x))))
        return result if weight is None else ops.mul(result, weight)
    return ops.rms_norm(x, weight, axis=axis, epsilon=_epsilon(x, epsilon))


def _epsilon(x: ir.Value, epsilon: float | None) -> float:
    """torch's default is the element type's own, float32's for 16 bits."""
    import torch

    return torch.finfo(getattr(torch, wide(type_of(x).dtype))).eps if epsilon is None else epsilon


@aten("_fused_rms_norm.default")
def fused_rms_norm(node: Node, x: ir.Value, shape: list[int], weight: Any, epsilon: float | None) -> list[Any]:
    epsilon = _epsilon(x, epsilon)
    axis = type_of(x).rank - len(shape)
    result = ops.rms_norm(x, weight, axis=axis, epsilon=epsilon)
    if not node.uses(1):
        return [result, None]
    value = convert(x, wide(type_of(x).dtype))
    square = mean(ops.mul(value, value), tuple(range(axis, type_of(x).rank)), keepdims=True)
    inverse = ops.rsqrt(ops.add(square, number_like(epsilon, value)))
    return [result, convert(inverse, node.result_type(1).dtype)]


@aten("group_norm.default")
def group_norm(
    node: Node, x: ir.Value, groups: int, weight: Any = None, bias: Any = None, epsilon: float = 1e-5, cudnn: Any = True
) -> ir.Value:
    return ops.group_norm(x, weight, bias, groups=groups, epsilon=epsilon)


@aten("native_group_norm.default")
def native_group_norm(
    node: Node, x: ir.Value, weight: Any, bias: Any, n: Any, c: Any, hw: Any, groups: int, epsilon: float
) -> list[Any]:
    result = ops.group_norm(x, weight, bias, groups=groups, epsilon=epsilon)
    batch, channels, *spatial = type_of(x).shape
    apart = (channels,) if groups == 1 else (groups, channels // groups)  # as ops.group_norm computes it
    grouped, first = reshape(x, (batch, *apart, *spatial)), len(apart)
    return [result, *_statistics(node, grouped, tuple(range(first, first + 1 + len(spatial))), epsilon)]


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm(
    node: Node, x: ir.Value, weight: Any, bias: Any, centre: Any, variance: Any, momentum: float, epsilon: float
) -> list[Any]:
    """With running statistics: one multiplication and one addition a channel. torch takes apart the norm by the batch's
    own."""
    type_ = type_of(centre)
    ones = ops.full(shape=type_.shape, dtype=type_.dtype, value=1.0) if weight is None else weight
    zeros = ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0) if bias is None else bias
    result = ops.batch_norm(x, ones, zeros, centre, variance, epsilon=epsilon)
    dtype = node.result_type(1).dtype
    if node.result_type(1).shape == (0,):  # on CPUs
        empty = ops.full(shape=(0,), dtype=dtype, value=0.0)
        return [result, empty, empty]
    scale = ops.rsqrt(ops.add(convert(variance, dtype), number(epsilon, dtype)))
    return [result, convert(centre, dtype), scale]
