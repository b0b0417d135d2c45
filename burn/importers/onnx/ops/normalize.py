"""Normalisations and softmax. The operators are composites of burn's own; what is left are layouts and extra
outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import along, broadcast_to, convert, mean, number, number_like, reshape, wide
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op

STASHED = "statistics are computed in float32 at least, whatever type the node names"


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node) -> ir.Value:
    function = {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax, "Hardmax": _hardmax}[node.op]
    return softmax_of(node, node.required(0), function, node.opset, 1 if node.opset < 13 else -1)


def softmax_of(node: Node, x: ir.Value, function: Callable[..., ir.Value], opset: int, default: int = -1) -> ir.Value:
    """A function along the attribute `axis`; before opset 13 along all axes from `axis` on, taken together."""
    rank, axis = type_of(x).rank, node.int("axis", default)
    if opset >= 13:
        return function(x, axis=node.axis(axis, max(rank, 1)))
    axis = rank if axis == rank else node.axis(axis, rank)
    shape = type_of(x).shape
    if axis == rank - 1:
        return function(x, axis=axis)
    flat = reshape(x, (product(shape[:axis]), product(shape[axis:])))
    return reshape(function(flat, axis=1), shape)


def _hardmax(x: ir.Value, axis: int) -> ir.Value:
    """1 at the first maximum along the axis, 0 elsewhere."""
    type_ = type_of(x)
    index = ops.arg_reduce(x, kind="max", axis=axis, keepdims=True)
    return ops.cast(ops.eq(index, ops.iota(shape=type_.shape, axis=axis)), dtype=type_.dtype)


@onnx_op("LayerNormalization")
def layer_normalization(node: Node) -> Any:
    x, rank = node.required(0), node.type(0).rank
    axis, epsilon = node.axis(node.int("axis", -1), rank), node.float("epsilon", 1e-5)
    result = ops.layer_norm(x, node.required(1), node.input(2), axis=axis, epsilon=epsilon)
    if not (node.needs_output(1) or node.needs_output(2)):
        node.no_effect("stash_type", because=STASHED)
        return result
    value, axes = convert(x, _stash(node)), tuple(range(axis, rank))
    centre = mean(value, axes, keepdims=True)
    centred = ops.sub(value, centre)
    variance = mean(ops.mul(centred, centred), axes, keepdims=True)
    return [result, centre, ops.rsqrt(ops.add(variance, number_like(epsilon, value)))]


def _stash(node: Node) -> str:
    """The element type that statistics are given in."""
    return node.dtype("stash_type", "float32")


@onnx_op("RMSNormalization")
def rms_normalization(node: Node) -> ir.Value:
    axis = node.axis(node.int("axis", -1), node.type(0).rank)
    node.no_effect("stash_type", because=STASHED)
    return ops.rms_norm(node.required(0), node.input(1), axis=axis, epsilon=node.float("epsilon", 1e-5))


@onnx_op("InstanceNormalization")
def instance_normalization(node: Node) -> ir.Value:
    epsilon = node.float("epsilon", 1e-5)
    return ops.instance_norm(node.required(0), node.required(1), node.required(2), epsilon=epsilon)


@onnx_op("GroupNormalization")
def group_normalization(node: Node) -> ir.Value:
    """Before opset 21 scale and bias had one number a group."""
    x, groups, epsilon = node.required(0), node.int("num_groups"), node.float("epsilon", 1e-5)
    scale, bias = node.required(1), node.required(2)
    node.no_effect("stash_type", because=STASHED)
    if node.type(0).rank < 2:
        node.fail(f"takes a batch of channels, not {node.type(0)}")
    channels = node.type(0).shape[1]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        node.fail(f"{channels} channels do not split into {groups} groups", "num_groups")
    if node.opset < 21:
        shape = (groups, channels // groups)
        scale, bias = (reshape(broadcast_to(along(v, 0, 2), shape), (channels,)) for v in (scale, bias))
    return ops.group_norm(x, scale, bias, groups=groups, epsilon=epsilon)


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(node: Node) -> ir.Value:
    """(x - mean) / (standard deviation + 1e-9)."""
    x, type_ = node.required(0), node.type(0)
    axes = node.axes(node.ints("axes", (0, 2, 3)), type_.rank)
    value = convert(x, wide(type_.dtype))
    centred = ops.sub(value, mean(value, axes, keepdims=True))
    deviation = ops.root(mean(ops.mul(centred, centred), axes, keepdims=True))
    return convert(ops.div(centred, ops.add(deviation, number_like(1e-9, value))), type_.dtype)


@onnx_op("LpNormalization")
def lp_normalization(node: Node) -> ir.Value:
    axis = node.axis(node.int("axis", -1), node.type(0).rank)
    return ops.lp_norm(node.required(0), axis=axis, p=node.int("p", 2))


@onnx_op("LRN")
def lrn(node: Node) -> ir.Value:
    return ops.lrn(
        node.required(0),
        size=node.int("size"),
        alpha=node.float("alpha", 1e-4),
        beta=node.float("beta", 0.75),
        bias=node.float("bias", 1.0),
    )


@onnx_op("BatchNormalization")
def batch_normalization(node: Node) -> Any:
    """In training mode the batch's own statistics are used, and the running ones are given out, moved towards them."""
    x, scale, bias, centre, variance = (node.required(i) for i in range(5))
    epsilon, momentum = node.float("epsilon", 1e-5), node.float("momentum", 0.9)
    if node.opset < 9 and not node.int("spatial", 1):
        node.fail("statistics for every element (spatial = 0) are not supported", "spatial")
    said = node.int("training_mode", 0) if node.opset >= 14 else any(node.needs_output(i) for i in range(1, 5))
    if node.opset < 7 and node.int("is_test", 0):
        said = False
    if not said and any(node.needs_output(i) for i in (1, 2)):
        node.fail("the running mean and variance are outputs in training mode only", "training_mode")
    if not node.trains(said):
        node.keep_statistic(3)
        node.keep_statistic(4)
        return [ops.batch_norm(x, scale, bias, centre, variance, epsilon=epsilon), *[centre, variance] * 2]
    type_ = node.type(0)
    axes = tuple(i for i in range(type_.rank) if i != 1)
    value = convert(x, wide(type_.dtype))
    batch_mean, batch_variance = mean(value, axes), ops.variance(value, axes=axes)

    def moved(old: ir.Value, new: ir.Value) -> ir.Value:
        dtype = type_of(old).dtype
        new = convert(new, dtype)
        return ops.add(ops.mul(old, number(momentum, dtype)), ops.mul(new, number(1 - momentum, dtype)))

    result = ops.batch_norm(x, scale, bias, batch_mean, batch_variance, epsilon=epsilon)
    running = moved(centre, batch_mean), moved(variance, batch_variance)
    node.keep_statistic(3, running[0])
    node.keep_statistic(4, running[1])
    saved = [batch_mean, batch_variance] if node.opset < 14 else []
    return [result, *running, *saved]


@onnx_op("Dropout")
def dropout(node: Node) -> Any:
    """The identity, when it is not training. In training an element is kept with probability 1 - ratio, and scaled
    up."""
    x, type_ = node.required(0), node.type(0)
    old = node.opset < 12
    if node.opset < 7 and not node.int("is_test", 0) and node.importer.opening is None:
        node.fail("dropout in training is not supported in this version of the operator", "is_test")
    kept = number(1, type_.dtype if node.opset < 10 else "bool")
    training = node.trains(node.scalar(2) if node.has_input(2) and not old else False)
    ratio = node.float("ratio", 0.5) if old else node.scalar(1) if node.has_input(1) else 0.5
    if training is False or ratio == 0:
        node.no_effect("seed", "ratio", 1, 2, because="nothing is drawn")
        return [x, broadcast_to(kept, type_.shape)]
    given = not old and node.has_input(1)
    rate = convert(reshape(node.required(1), ()), "float32") if given else number(ratio, "float32")
    if training is None:
        rate = ops.select(reshape(node.required(2), ()), rate, number(0, "float32"))
    seed = node.int("seed", 0) if node.has("seed") else None
    key = node.importer.program.random_key(None if seed is None else seed % 2**64)
    mask = ops.ge(ops.random_uniform(key, shape=type_.shape), rate)
    scale = convert(ops.div(number(1, "float32"), ops.sub(number(1, "float32"), rate)), type_.dtype)
    return [ops.select(mask, ops.mul(x, scale), number_like(0, x)), convert(mask, type_of(kept).dtype)]
