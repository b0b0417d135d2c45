"""Recognises softmax, layer normalisation and RMS normalisation written out in reductions."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.normalization import RmsNorm
from burn.dialect.op import Op
from burn.dialect.query import is_named, op_of, splat, used_once
from burn.dialect.types import FLOATS, type_of
from burn.passes.algebra.law import Rewriter
from burn.passes.patterns.match import mean_of, pattern


@pattern("div")
def softmax(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """exp(x - max x) / sum of the same, along one axis"""
    power, total = is_named(op.lhs, "exp"), is_named(op.rhs, "reduce")
    if power is None or total is None or total.kind != "sum" or total.x != op.lhs or not total.keepdims:
        return None
    centred = is_named(power.x, "sub")
    top = is_named(centred.rhs, "reduce") if centred is not None else None
    if centred is None or top is None or top.kind != "max" or top.x != centred.lhs or not top.keepdims:
        return None
    rank = type_of(op.lhs).rank
    axes = {a % rank for a in total.axes}
    if len(axes) != 1 or axes != {a % rank for a in top.axes}:
        return None
    return ops.softmax(centred.lhs, axis=axes.pop())


def _standardised(value: ir.Value) -> tuple[ir.Value, int, float] | None:
    """(x, first axis, epsilon) of 1 / sqrt(mean(x * x) + epsilon), the mean over the last axes."""
    root = is_named(value, "rsqrt")
    shifted = is_named(root.x, "add") if root is not None else None
    epsilon = splat(shifted.rhs) if shifted is not None else None
    mean = mean_of(shifted.lhs) if shifted is not None else None
    square = is_named(mean.x, "mul") if mean is not None else None
    if mean is None or square is None or square.lhs != square.rhs or epsilon is None or epsilon < 0:
        return None
    rank = type_of(square.lhs).rank
    first = mean.axes[0]
    return (square.lhs, first, epsilon) if mean.axes == tuple(range(first, rank)) else None


@pattern("mul")
def layer_norm(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x - mean x) / sqrt(mean of the same squared + epsilon), over the last axes"""
    found = _normalised(op)
    centred = is_named(found[0], "sub") if found is not None else None
    mean = mean_of(centred.rhs) if centred is not None else None
    if found is None or centred is None or mean is None or mean.x != centred.lhs:
        return None
    x, (_, first, epsilon) = centred.lhs, found
    if mean.axes != tuple(range(first, type_of(x).rank)):
        return None
    return ops.layer_norm(x, None, None, axis=first, epsilon=epsilon)


def _normalised(op: Op) -> tuple[ir.Value, int, float] | None:
    """(x, first axis, epsilon) of x / sqrt(mean(x * x) + epsilon)."""
    for x, root in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        found = _standardised(root)
        if found is not None and found[0] == x and type_of(x).dtype in FLOATS:
            return found
    return None


@pattern("mul")
def rms_norm(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x / sqrt(mean(x * x) + epsilon), over the last axes; `layer_norm` has been tried before"""
    found = _normalised(op)
    return ops.rms_norm(found[0], None, axis=found[1], epsilon=found[2]) if found is not None else None


@pattern("reshape")
def group_norm(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """instance_norm of channels merged to groups and split again: exporters' form of group normalisation"""
    norm = is_named(op.x, "instance_norm")
    merge = is_named(norm.x, "reshape") if norm is not None else None
    if norm is None or merge is None or not used_once(op.x):
        return None
    plain = [v is None or splat(v) == number for v, number in ((norm.scale, 1), (norm.bias, 0))]
    shape, groups = type_of(merge.x).shape, type_of(norm.x).shape[1]
    if not all(plain) or op.shape != shape or len(shape) < 3 or type_of(norm.x).rank != 3:
        return None
    if merge.shape[0] != shape[0] or not isinstance(groups, int) or not isinstance(shape[1], int) or shape[1] % groups:
        return None
    return ops.group_norm(merge.x, None, None, groups=groups, epsilon=norm.epsilon)


def _parameter(norm: Op, value: ir.Value) -> bool:
    """True if a value has only normalised axes, so that it can be a parameter of the normalisation."""
    rank = type_of(norm.x).rank
    return type_of(value).rank <= rank - norm.axis % rank and type_of(value).dtype == type_of(norm.x).dtype


@pattern("mul")
def scale(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """layer_norm(x) * scale, rms_norm(x) * scale"""
    for value, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        norm = is_named(value, "layer_norm", "rms_norm")
        if norm is None or norm.scale is not None or not used_once(value) or not _parameter(norm, factor):
            continue
        if isinstance(norm, RmsNorm):
            return ops.rms_norm(norm.x, factor, **norm.attrs)
        if norm.bias is None:
            return ops.layer_norm(norm.x, factor, None, **norm.attrs)
    return None


@pattern("add")
def bias(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """layer_norm(x) * scale + bias"""
    for value, offset in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        norm = is_named(value, "layer_norm")
        parameter = op_of(offset) is None or rewriter.constant(offset)
        if norm is None or norm.bias is not None or not used_once(value) or not parameter:
            continue
        if _parameter(norm, offset):
            return ops.layer_norm(norm.x, norm.scale, offset, **norm.attrs)
    return None
