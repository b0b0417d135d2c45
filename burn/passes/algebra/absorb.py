"""Absorption into contractions: constant factors move into weights, padding and transposes into attributes.

A factor must be finite and at most `LARGEST` in magnitude. An infinite one would turn infinite sums, or sums of zeros,
into NaN, and extreme ones would let weights overflow or underflow. Absorption rounds each weight once more, within the
accuracy of a contraction (docs/guide/numerics.md).

The new weights are ordinary ops on constants (`fold` evaluates them). Batch normalisation in inference is a factor and
an offset per channel, so it becomes part of the convolution before it.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, reshape
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, result_type, splat, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.bounds import Bounds, bounds
from burn.passes.algebra.law import Rewriter, law, ones

LARGEST = {"float16": 2.0**6, "bfloat16": 2.0**40, "float32": 2.0**40, "float64": 2.0**40}
"""Single factors are between 1 / LARGEST and LARGEST. Factors of channels may be smaller, for example 0 for an unused
one."""

SHARED = 1 << 16
"""The largest weight in bytes that is copied for a factor if it has other readers."""


def _weight(rewriter: Rewriter, contraction: Op | None) -> ir.Value | None:
    """The constant float weight of a contraction that may be scaled, or None."""
    if contraction is None or contraction.dtype is not None:
        return None
    weight = contraction.weight if isinstance(contraction, Conv) else contraction.rhs
    type_ = type_of(weight)
    if DTYPES[type_.dtype].kind != "float" or not rewriter.constant(weight):
        return None
    size = type_.bytes
    return weight if used_once(weight) or (isinstance(size, int) and size <= SHARED) else None


def _factor(contraction: Op, weight: ir.Value, factor: ir.Value) -> ir.Value | None:
    """A factor of the result in a shape that multiplies the weight; None if it varies along axes of the result that do
    not come from the weight."""
    rank = result_type(contraction).rank
    shape = type_of(factor).shape
    if ones(shape):
        return reshape(factor, ())
    if len(shape) > rank:
        return None
    padded = (*(1,) * (rank - len(shape)), *shape)
    if isinstance(contraction, Conv):
        last = contraction.layout == "last"
        axis = rank - 1 if last else 1
        if any(d != 1 for i, d in enumerate(padded) if i != axis):
            return None
        return reshape(factor, (padded[axis], *(() if last else (1,) * (rank - 1))))
    weight_rank = type_of(weight).rank
    used = (*contraction.rhs_batch, *contraction.rhs_contract)
    free = [a for a in range(weight_rank) if a not in used]
    first = rank - len(free)
    if any(d != 1 for d in padded[:first]):
        return None
    laid: list[Dim] = [1] * weight_rank
    for number, axis in enumerate(free):
        laid[axis] = padded[first + number]
    return reshape(factor, tuple(laid))


def _scaled(rewriter: Rewriter, value: ir.Value, factor: ir.Value) -> ir.Value | None:
    """value * factor for a contraction that absorbs the factor and has no other reader."""
    contraction = is_named(value, "conv", "dot_general")
    weight = _weight(rewriter, contraction)
    if contraction is None or weight is None or not used_once(value) or type_of(factor).rank > type_of(value).rank:
        return None
    laid = _factor(contraction, weight, factor)
    if laid is None:
        return None
    scaled = ops.mul(weight, laid)
    first = contraction.x if isinstance(contraction, Conv) else contraction.lhs
    return type(contraction).build(first, scaled, **contraction.attrs)


@law("mul", absorbs=True)
def scale_contraction(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x . w) * c = x . (w * c); ((x . w) + b) * c = x . (w * c) + b * c"""
    return _absorbed(rewriter, op.lhs, op.rhs) if rewriter.constant(op.rhs) else None


def _absorbed(rewriter: Rewriter, value: ir.Value, factor: ir.Value) -> ir.Value | None:
    """value * factor for a contraction, or one plus a constant, that absorbs the factor."""
    known = bounds(rewriter.weights, factor)
    if known is None or not _is_moderate(known, factor):
        return None
    bias = is_named(value, "add")
    if bias is None:
        return _scaled(rewriter, value, factor)
    if not rewriter.constant(bias.rhs) or not used_once(value):
        return None
    scaled = _scaled(rewriter, bias.lhs, factor)
    return ops.add(scaled, ops.mul(bias.rhs, factor)) if scaled is not None else None


def _is_moderate(known: Bounds, factor: ir.Value) -> bool:
    largest = LARGEST.get(type_of(factor).dtype)
    if largest is None:
        return False
    is_small = known.near < 1 / largest and type_of(factor).elements == 1
    return max(known.high, -known.low) <= largest and not is_small


@law("batch_norm", absorbs=True)
def bias_before_batch_norm(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """batch_norm(x . w + b, mean) = batch_norm(x . w, mean - b) for a constant b, one number per channel"""
    biased = is_named(op.x, "add")
    if biased is None or not used_once(op.x) or not all(map(rewriter.constant, (biased.rhs, op.mean))):
        return None
    contraction = is_named(biased.lhs, "conv", "dot_general")
    bias, channels, rank = type_of(biased.rhs), type_of(op.mean).shape, type_of(op.x).rank
    along = (*(1,) * (rank - bias.rank), *bias.shape)
    if contraction is None or type_of(biased.lhs) != type_of(op.x):
        return None
    if along != (1, *channels, *(1,) * (rank - 2)):
        return None
    moved = ops.sub(op.mean, convert(reshape(biased.rhs, channels), type_of(op.mean).dtype))
    return ops.batch_norm(biased.lhs, op.scale, op.bias, moved, op.variance, epsilon=op.epsilon)


@law("div", absorbs=True)
def divide_contraction(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x . w) / c = x . (w * (1 / c)), if the factor is absorbed"""
    if not rewriter.constant(op.rhs) or DTYPES[result_type(op).dtype].kind != "float":
        return None
    return _absorbed(rewriter, op.lhs, ops.reciprocal(op.rhs))


@law("conv")
def pad_before_conv(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """conv(pad(x, 0)) = conv(x) with larger padding of value 0 or `fill`"""
    pad = is_named(op.x, "pad")
    if pad is None or any(pad.interior) or splat(pad.value) != (op.fill or 0):
        return None
    n = len(op.strides)
    start = 1 if op.layout == "last" else 2
    outer = [i for i in range(n + 2) if not start <= i < start + n]
    if any(pad.low[i] != 0 or pad.high[i] != 0 for i in outer):
        return None
    low = tuple(a + b for a, b in zip(op.low, pad.low[start : start + n], strict=True))
    high = tuple(a + b for a, b in zip(op.high, pad.high[start : start + n], strict=True))
    return ops.conv(pad.x, op.weight, **(op.attrs | {"low": low, "high": high}))


OPERANDS = (("lhs", "lhs_batch", "lhs_contract"), ("rhs", "rhs_batch", "rhs_contract"))


@law("dot_general")
def transpose_before_dot(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """dot(transpose(x), y) = dot(x, y) over other axes, if the transpose keeps the order of x's free axes"""
    for operand, batch, contract in OPERANDS:
        inner = is_named(getattr(op, operand), "transpose")
        if inner is None:
            continue
        order = inner.permutation
        used = (*getattr(op, batch), *getattr(op, contract))
        free = [order[a] for a in range(len(order)) if a not in used]
        if free != sorted(free):
            continue
        moved = {name: tuple(order[a] for a in getattr(op, name)) for name in (batch, contract)}
        operands = {"lhs": op.lhs, "rhs": op.rhs, operand: inner.x}
        return ops.dot_general(operands["lhs"], operands["rhs"], **(op.attrs | moved))
    return None


@law("dot_general", absorbs=True)
def scale_before_dot(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x * c) . w = x . (w * c) for a number c and a constant w"""
    inner = is_named(op.lhs, "mul")
    if inner is None or not used_once(op.lhs) or rewriter.constant(op.lhs):
        return None
    factor, weight = splat(inner.rhs), _weight(rewriter, op)
    if factor is None or weight is None or type_of(inner.lhs) != type_of(op.lhs):
        return None
    largest = LARGEST[type_of(weight).dtype]
    if not 1 / largest <= abs(factor) <= largest:
        return None
    return ops.dot_general(inner.lhs, ops.mul(weight, number_like(factor, weight)), **op.attrs)
