"""Composites with rules of their own, because decomposing them would cost more, lose precision, or multiply infinity by
zero."""

from __future__ import annotations

import math
from typing import Any

from burn.dialect import ops
from burn.dialect.activation import GELU_CUBE, tanh_curve
from burn.dialect.adjoint.rules import rule
from burn.dialect.compose import (
    along,
    convert,
    count,
    dim_value,
    mean,
    nonzero,
    number,
    number_like,
    plus,
    reshape,
    times,
    where,
    wide,
)
from burn.dialect.deferred import Value
from burn.dialect.loss import held_logs
from burn.dialect.normalization import centred, centred_and_scale
from burn.dialect.types import type_of


@rule("relu")
def relu(g: Value, y: Value, x: Value) -> Value:
    """0 at 0, as in PyTorch; a NaN propagates the cotangent."""
    return ops.select(ops.le(x, number_like(0, x)), number_like(0.0, g), g)


@rule("clip")
def clip(g: Value, y: Value, x: Value, low: Value | None, high: Value | None, strict: bool) -> list[Value | None]:
    """A bound receives the cotangent of the elements that it replaces. If low is above high, high replaces all."""
    below = None if low is None else (ops.le if strict else ops.lt)(x, reshape(low, ()))
    above = None
    if high is not None:
        raised = x if low is None else ops.max(x, reshape(low, ()))
        above = (ops.ge if strict else ops.gt)(raised, reshape(high, ()))
    of_x, of_low, of_high = g, None, None
    if below is not None and low is not None:
        held = below if above is None else ops.and_(below, ops.not_(above))
        of_x, of_low = ops.select(below, number_like(0.0, g), of_x), _total(where(held, g), low)
    if above is not None and high is not None:
        of_x, of_high = ops.select(above, number_like(0.0, g), of_x), _total(where(above, g), high)
    return [of_x, of_low, of_high]


@rule("hard_sigmoid")
def hard_sigmoid(g: Value, y: Value, x: Value, alpha: float, beta: float) -> Value:
    """0 at the bounds, as in PyTorch."""
    return where(_rises(x, alpha, beta), times(g, alpha))


@rule("hard_swish")
def hard_swish(g: Value, y: Value, x: Value) -> Value:
    """0 at -3 and 1 at 3, as in PyTorch."""
    dtype = type_of(x).dtype
    g, v = convert(g, wide(dtype)), convert(x, wide(dtype))
    middle = ops.mul(g, plus(times(v, 1 / 3), 0.5))
    outside = ops.select(ops.le(v, number_like(-3.0, v)), number_like(0.0, g), g)
    return convert(ops.select(_rises(v, 1 / 6, 0.5), middle, outside), dtype)


def _rises(x: Value, alpha: float, beta: float) -> Value:
    """True if alpha x + beta is between 0 and 1."""
    line = plus(times(convert(x, wide(type_of(x).dtype)), alpha), beta)
    return ops.and_(ops.gt(line, number_like(0.0, line)), ops.lt(line, number_like(1.0, line)))


@rule("softplus")
def softplus(g: Value, y: Value, x: Value) -> Value:
    """The ops of its decomposition have a kink at 0, softplus has none."""
    return ops.mul(g, ops.sigmoid(x))


@rule("silu")
def silu(g: Value, y: Value, x: Value, alpha: float) -> Value:
    """sigmoid(z) (1 + z (1 - sigmoid(z))), z = alpha x. The derivative is one value, as in `gelu`."""
    dtype = type_of(x).dtype
    v = convert(x, wide(dtype))
    z = v if alpha == 1.0 else times(v, alpha)
    curve = ops.sigmoid(z)
    slope = ops.mul(curve, plus(ops.mul(z, ops.sub(number_like(1.0, v), curve)), 1.0))
    return convert(ops.mul(convert(g, wide(dtype)), slope), dtype)


@rule("gelu")
def gelu(g: Value, y: Value, x: Value, approximate: str) -> Value:
    """The cotangent is multiplied once, by a derivative of x alone: the forward pass can keep that instead of x
    (`passes/keep_derivatives.py`)."""
    dtype = type_of(x).dtype
    v = convert(x, wide(dtype))
    if approximate == "tanh":
        curve = tanh_curve(v)
        inner = plus(times(ops.mul(v, v), 3 * GELU_CUBE), 1.0)
        density = ops.mul(ops.sub(number_like(1.0, v), ops.mul(curve, curve)), times(inner, math.sqrt(0.5 / math.pi)))
    else:
        z = times(v, math.sqrt(0.5))
        curve = ops.erf(z)  # its code contains this exponential
        density = times(ops.exp(ops.neg(ops.mul(z, z))), math.sqrt(0.5 / math.pi))
    slope = ops.add(times(plus(curve, 1.0), 0.5), ops.mul(v, density))
    return convert(ops.mul(convert(g, wide(dtype)), slope), dtype)


@rule("mish")
def mish(g: Value, y: Value, x: Value) -> Value:
    """tanh(s) + x (1 - tanh(s)^2) sigmoid(x), s = softplus(x)."""
    dtype = type_of(x).dtype
    g, v = convert(g, wide(dtype)), convert(x, wide(dtype))
    curve = ops.tanh(ops.softplus(v))
    rest = ops.mul(ops.sub(number_like(1.0, v), ops.mul(curve, curve)), ops.sigmoid(v))
    flat = ops.eq(rest, number_like(0.0, v))  # infinity times 0
    return convert(ops.mul(g, ops.add(curve, ops.select(flat, rest, ops.mul(v, rest)))), dtype)


def _total(x: Value, like: Value) -> Value:
    return reshape(ops.reduce(x, kind="sum", axes=tuple(range(type_of(x).rank))), type_of(like).shape)


def _elu(g: Value, x: Value, alpha: float, gamma: float, width: float) -> Value:
    """Selects the slope, not the cotangent: exp(x) may be infinite for elements that do not use it."""
    v = convert(x, wide(type_of(x).dtype))
    left = ops.le(v, number_like(0, v))  # 0 counts as below, as in PyTorch
    held = where(left, v)
    below = times(ops.exp(held if width == 1.0 else times(held, 1.0 / width)), gamma * alpha / width)
    slope = ops.select(left, below, number_like(gamma, v))
    return convert(ops.mul(convert(g, type_of(v).dtype), slope), type_of(x).dtype)


@rule("elu")
def elu(g: Value, y: Value, x: Value, alpha: float) -> Value:
    return _elu(g, x, alpha, 1.0, 1.0)


@rule("selu")
def selu(g: Value, y: Value, x: Value, alpha: float, gamma: float) -> Value:
    return _elu(g, x, alpha, gamma, 1.0)


@rule("celu")
def celu(g: Value, y: Value, x: Value, alpha: float) -> Value:
    return _elu(g, x, alpha, 1.0, alpha)


@rule("hypot")
def hypot(g: Value, y: Value, lhs: Value, rhs: Value) -> list[Value]:
    """0 at (0, 0). The operands are divided first: the cotangent over a small result may overflow."""
    length = nonzero(y)
    return [ops.mul(g, ops.div(lhs, length)), ops.mul(g, ops.div(rhs, length))]


@rule("root")
def root(g: Value, y: Value, x: Value, degree: float) -> Value:
    """y^(1 - degree) / degree, or 0 if the result is 0."""
    length = nonzero(y)
    power = length if degree == 2.0 else ops.pow(length, number_like(degree - 1.0, y))
    return where(ops.ne(y, number_like(0.0, y)), ops.div(times(g, 1.0 / degree), power))


# ---- softmax and losses --------------------------------------------------------------------------------------------------
def _sum(x: Value, axis: int) -> Value:
    rank = type_of(x).rank
    return ops.reduce(x, kind="sum", axes=(axis % rank,) if rank else (), keepdims=True)


@rule("softmax")
def softmax(g: Value, y: Value, x: Value, axis: int) -> Value:
    dtype = type_of(x).dtype
    g, y = convert(g, wide(dtype)), convert(y, wide(dtype))
    return convert(ops.mul(y, ops.sub(g, _sum(ops.mul(g, y), axis))), dtype)


@rule("log_softmax")
def log_softmax(g: Value, y: Value, x: Value, axis: int) -> Value:
    """Recomputes the result from x and two numbers per row: a loss reads one element of a row and keeps no others."""
    dtype, rank = type_of(x).dtype, type_of(x).rank
    axes = (axis % rank,) if rank else ()
    g, value = convert(g, wide(dtype)), convert(x, wide(dtype))
    summed = _sum(g, axis)
    again = convert(ops.barrier(x, summed), wide(dtype))
    top = ops.reduce(value, kind="max", axes=axes, keepdims=True)
    total = ops.log(_sum(ops.exp(ops.sub(value, top)), axis))
    p = ops.exp(ops.sub(ops.sub(again, top), total))
    return convert(ops.sub(g, ops.mul(p, summed)), dtype)


def _picked(g: Value, log_p: Value, target: Value, reduction: str, ignore: int | None) -> tuple[Value, Value]:
    """(the one-hot mask of the targets, the cotangent of each element of the loss), both of shapes that broadcast to
    [n, classes, d..]."""
    type_, target_shape = type_of(log_p), type_of(target).shape
    lifted = (target_shape[0], 1, *target_shape[1:])
    target = convert(target, "int64")
    kept = None if ignore is None else ops.ne(target, number(ignore, "int64"))
    if reduction == "mean":
        count = dim_value(type_of(target).elements, type_.dtype)
        if kept is not None:
            axes = tuple(range(len(target_shape)))
            count = ops.reduce(convert(kept, type_.dtype), kind="sum", axes=axes)
        g = ops.div(g, count)
    share = reshape(g, lifted) if reduction == "none" else g
    if kept is not None:
        share = where(reshape(kept, lifted), share)
    at = ops.eq(ops.iota(shape=type_.shape, axis=1), reshape(target, lifted))
    return at, share


@rule("nll_loss")
def nll_loss(
    g: Value, y: Value, log_p: Value, target: Value, weight: Value | None, reduction: str, ignore: int | None
) -> Any:
    if weight is not None:
        return NotImplemented  # it may need a cotangent itself
    at, share = _picked(g, log_p, target, reduction, ignore)
    return [where(at, ops.neg(share)), None, None]


@rule("cross_entropy")
def cross_entropy(
    g: list[Value | None],
    y: list[Value],
    scores: Value,
    target: Value,
    weight: Value | None,
    reduction: str,
    ignore: int | None,
) -> Any:
    """(softmax - one-hot target) times the cotangent of each loss element: no sum over the classes is needed."""
    if weight is not None or g[0] is None or g[1] is not None:
        return NotImplemented
    at, share = _picked(g[0], y[1], target, reduction, ignore)
    return [ops.mul(ops.sub(ops.exp(y[1]), convert(at, type_of(scores).dtype)), share), None, None]


SMALL = 1e-12
"""The lower limit of a probability times its complement, as in PyTorch."""


@rule("binary_cross_entropy")
def binary_cross_entropy(g: Value, y: Value, x: Value, target: Value) -> list[Value]:
    """(x - target) / (x (1 - x)). The decomposition would give 0 / 0 if a sigmoid is exactly 0 or 1."""
    spread = ops.mul(x, ops.sub(number_like(1.0, x), x))
    yes, no = held_logs(x)
    slope = ops.div(ops.sub(x, target), ops.clip(spread, number_like(SMALL, x), None))
    return [ops.mul(g, slope), ops.mul(g, ops.sub(no, yes))]


# ---- normalisation -------------------------------------------------------------------------------------------------------
@rule("layer_norm")
def layer_norm(
    g: Value, y: Value, x: Value, scale: Value | None, bias: Value | None, axis: int, epsilon: float
) -> list[Value | None]:
    type_ = type_of(x)
    axes = tuple(range(axis % type_.rank, type_.rank))
    distance, factor = centred_and_scale(convert(x, wide(type_.dtype)), axes, epsilon)
    normal = ops.mul(distance, factor)
    g = convert(g, type_of(normal).dtype)
    inner = _scaled(g, scale)
    inner = ops.sub(inner, mean(inner, axes, keepdims=True))
    of_x = _without_projection(inner, normal, factor, axes)
    of_scale = None if scale is None else ops.mul(g, normal)
    return [convert(of_x, type_.dtype), of_scale, None if bias is None else g]


@rule("rms_norm")
def rms_norm(g: Value, y: Value, x: Value, scale: Value | None, axis: int, epsilon: float) -> list[Value | None]:
    type_ = type_of(x)
    axes = tuple(range(axis % type_.rank, type_.rank))
    value = convert(x, wide(type_.dtype))
    square = mean(ops.mul(value, value), axes, keepdims=True)
    factor = ops.rsqrt(ops.add(square, number_like(epsilon, value)))
    normal = ops.mul(value, factor)
    g = convert(g, type_of(normal).dtype)
    of_x = _without_projection(_scaled(g, scale), normal, factor, axes)
    return [convert(of_x, type_.dtype), None if scale is None else ops.mul(g, normal)]


def _scaled(g: Value, scale: Value | None) -> Value:
    return g if scale is None else ops.mul(g, convert(scale, type_of(g).dtype))


def _without_projection(g: Value, normal: Value, factor: Value, axes: tuple[int, ...]) -> Value:
    """(g minus its projection on the normalised values) times the scale factor."""
    along = mean(ops.mul(g, normal), axes, keepdims=True)
    return ops.mul(ops.sub(g, ops.mul(normal, along)), factor)


@rule("variance")
def variance(g: Value, y: Value, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """The mean's cotangent is zero, because deviations from it sum to 0."""
    type_ = type_of(x)
    kept = tuple(1 if i in {a % type_.rank for a in axes} else d for i, d in enumerate(type_.shape))
    distance = centred(convert(x, wide(type_.dtype)), axes)
    g = convert(g, type_of(distance).dtype)
    share = ops.div(times(g, 2.0), dim_value(count(type_, axes), type_of(g).dtype))
    return convert(ops.mul(reshape(share, kept), distance), type_.dtype)


@rule("batch_norm")
def batch_norm(
    g: Value, y: Value, x: Value, scale: Value, bias: Value, centre: Value, variance: Value, epsilon: float
) -> list[Value]:
    """Two reductions of x serve all four vectors."""
    type_ = type_of(x)
    dtype, axis = wide(type_.dtype), min(1, type_.rank - 1)
    axes = tuple(i for i in range(type_.rank) if i != axis)
    parameters = (scale, bias, centre, variance)
    g, x, wide_scale, _, middle, spread = (convert(v, dtype) for v in (g, x, *parameters))
    spread = plus(spread, epsilon)
    root = ops.sqrt(spread)
    factor = ops.div(wide_scale, root)
    inner = ops.reduce(ops.mul(g, ops.sub(x, along(middle, axis, type_.rank))), kind="sum", axes=axes)
    total = ops.reduce(g, kind="sum", axes=axes)
    of_variance = times(ops.div(ops.mul(inner, factor), spread), -0.5)
    summed = (ops.div(inner, root), total, ops.neg(ops.mul(total, factor)), of_variance)
    of_x = convert(ops.mul(g, along(factor, axis, type_.rank)), type_.dtype)
    return [of_x, *(convert(v, type_of(p).dtype) for v, p in zip(summed, parameters, strict=True))]


@rule("lp_norm")
def lp_norm(g: Value, y: Value, x: Value, axis: int, p: int) -> Value:
    """0 if the norm is 0, because the result is then 0 for any x."""
    dtype = type_of(x).dtype
    g, y, x = (convert(v, wide(dtype)) for v in (g, y, x))
    norm = _sum(ops.mul(x, x) if p == 2 else ops.abs(x), axis)
    norm = ops.root(norm) if p == 2 else norm
    slope = y if p == 2 else ops.sign(x)
    summed = ops.div(ops.sub(g, ops.mul(slope, _sum(ops.mul(g, y), axis))), nonzero(norm))
    return convert(where(ops.ne(norm, number_like(0, norm)), summed), dtype)
