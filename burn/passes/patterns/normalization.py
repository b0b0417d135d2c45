"""Recognises softmax, layer normalisation and RMS normalisation written out in reductions."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.normalization import RmsNorm
from burn.dialect.op import Op
from burn.dialect.query import is_named, op_of, splat, used_once
from burn.dialect.types import FLOATS, type_of
from burn.passes.algebra.law import Rewriter
from burn.passes.patterns.match import Mean, factors, mean_of, pattern


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
    found = _over_root(value)
    mean = _mean_of_squares(found[0]) if found is not None else None
    if found is None or mean is None:
        return None
    first = mean.axes[0]
    return (mean.x, first, found[1]) if mean.axes == tuple(range(first, type_of(mean.x).rank)) else None


def _over_root(value: ir.Value) -> tuple[ir.Value, float] | None:
    """(x, epsilon) of 1 / sqrt(x + epsilon) and of 1 / sqrt(max(x, 0) + epsilon)."""
    root = is_named(value, "rsqrt")
    shifted = is_named(root.x, "add") if root is not None else None
    epsilon = splat(shifted.rhs) if shifted is not None else None
    if shifted is None or epsilon is None or epsilon < 0:
        return None
    bounded = is_named(shifted.lhs, "max")
    if bounded is not None and splat(bounded.rhs) == 0:
        return bounded.lhs, epsilon
    return shifted.lhs, epsilon


def _mean_of_squares(value: ir.Value) -> Mean | None:
    """The mean of x of mean(x * x)."""
    mean = mean_of(value)
    square = is_named(mean.x, "mul") if mean is not None else None
    if mean is None or square is None or square.lhs != square.rhs:
        return None
    return Mean(square.lhs, mean.axes)


@pattern("mul")
def layer_norm_of_moments(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x - mean x) / sqrt(mean(x * x) - mean(x) * mean(x) + epsilon) * scale over the last axes, as Flax writes it. The variance
    of layer_norm is the mean of squared differences, which rounds less."""
    found = factors(op)
    roots = [(f, made) for f in found.factors if (made := _over_root(f)) is not None]
    if found.number != 1 or len(roots) != 1 or not 2 <= len(found.factors) <= 3:
        return None
    root, (variance, epsilon) = roots[0]
    difference = is_named(variance, "sub")
    moment = _mean_of_squares(difference.lhs) if difference is not None else None
    square = is_named(difference.rhs, "mul") if difference is not None else None
    mean = mean_of(square.lhs) if square is not None and square.lhs == square.rhs else None
    if moment is None or mean is None or mean != moment:
        return None
    x, axis = mean.x, mean.axes[0]
    others = [f for f in found.factors if f != root]
    centred = [f for f in others if (s := is_named(f, "sub")) is not None and s.lhs == x and mean_of(s.rhs) == mean]
    scales = [bare(f) for f in others if f not in centred]
    if len(centred) != 1 or mean.axes != tuple(range(axis, type_of(x).rank)) or type_of(x).dtype not in FLOATS:
        return None
    if any(type_of(s).rank > len(mean.axes) or type_of(s).dtype != type_of(x).dtype for s in scales):
        return None
    return ops.layer_norm(x, scales[0] if scales else None, None, axis=axis, epsilon=epsilon)


def bare(value: ir.Value) -> ir.Value:
    """A value without the leading axes of size 1 that a reshape adds."""
    while (op := is_named(value, "reshape")) is not None:
        have, want = type_of(op.x).shape, type_of(value).shape
        added = len(want) - len(have)
        if added < 0 or want[added:] != have or any(size != 1 for size in want[:added]):
            break
        value = op.x
    return value


@pattern("add")
def batch_norm(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, each a vector along one axis"""
    rank = type_of(op.operation.results[0]).rank
    for value, offset in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner, bias = is_named(value, "mul"), _vector(offset, rank)
        found = factors(inner) if inner is not None and bias is not None and rank >= 2 else None
        roots = [(f, made) for f in found.factors if (made := _over_root(f)) is not None] if found is not None else []
        if found is None or bias is None or len(roots) != 1 or found.number != 1 or len(found.factors) != 3:
            continue
        root, (spread, epsilon) = roots[0]
        others = [f for f in found.factors if f != root]
        for scale_of, centred_of in (others, others[::-1]):
            variance, scale, centred = _vector(spread, rank), _vector(scale_of, rank), _centred(centred_of, rank)
            if variance is None or scale is None or centred is None:
                continue
            x, mean = centred
            vectors = (scale, bias, mean, variance)
            axis = bias[1]
            one_type = len({type_of(v).dtype for v, _ in vectors} | {type_of(x).dtype}) == 1
            if not one_type or any(
                v[1] != axis or type_of(v[0]).shape != type_of(x).shape[axis : axis + 1] for v in vectors
            ):
                continue
            order = [0, axis, *(a for a in range(1, rank) if a != axis)]
            back = tuple(order.index(a) for a in range(rank))
            moved = x if axis == 1 else ops.transpose(x, permutation=tuple(order))
            made = ops.batch_norm(moved, *(v for v, _ in vectors), epsilon=epsilon)
            return made if axis == 1 else ops.transpose(made, permutation=back)
    return None


def _centred(value: ir.Value, rank: int) -> tuple[ir.Value, tuple[ir.Value, int]] | None:
    """(x, mean) of x - mean, for a vector."""
    op = is_named(value, "sub", "add")
    if op is None or type_of(value) != type_of(op.lhs):
        return None
    negated = is_named(op.rhs, "neg") if op.OP_NAME == "add" else None
    if op.OP_NAME == "add" and negated is None:
        return None
    mean = _vector(op.rhs if negated is None else negated.x, rank)
    return None if mean is None else (op.lhs, mean)


def _vector(value: ir.Value, rank: int) -> tuple[ir.Value, int] | None:
    """A vector, and the axis of a tensor of a rank that it is broadcast along; not axis 0, which the batch has."""
    op = is_named(value, "reshape")
    inner = op.x if op is not None else value
    shape = type_of(value).shape
    if type_of(inner).rank != 1 or len(shape) > rank:
        return None
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    axis = (axes[0] if axes else len(shape) - 1) + rank - len(shape)
    return (inner, axis) if len(axes) <= 1 and axis >= 1 else None


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
        factor = bare(factor)
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
        norm, offset = is_named(value, "layer_norm"), bare(offset)
        parameter = op_of(offset) is None or rewriter.constant(offset)
        if norm is None or norm.bias is not None or not used_once(value) or not parameter:
            continue
        if _parameter(norm, offset):
            return ops.layer_norm(norm.x, norm.scale, offset, **norm.attrs)
    return None
