"""Counted positions (`iota`): comparisons that always hold, and gathers that are views.

    mask.reshape(batch * seq, 1)[b * seq + k] = mask[b, k]

is how transformers write a padding mask indexed by batch and key, if the exporter has no vmap.
"""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, transpose
from burn.dialect.constants import known_array
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Ge, Mul
from burn.dialect.query import is_named, op_of, result_type, splat
from burn.dialect.shape import BroadcastTo, Iota, Reshape
from burn.dialect.types import type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full


def _counted(value: ir.Value) -> tuple[int, Dim] | None:
    """(axis, n) of a value that is 0, 1 .. n - 1 along one axis and has size 1 along the others."""
    shape = type_of(value).shape
    source = op_of(value)
    while source is not None and isinstance(source, Reshape):
        source = op_of(source.x)
    if source is None or not isinstance(source, Iota) or source.dtype not in ("int32", "int64"):
        return None  # narrow types wrap
    sizes = result_type(source).shape
    if any(d != 1 for i, d in enumerate(sizes) if i != source.axis):
        return None
    long = [i for i, d in enumerate(shape) if d != 1]
    return (long[0], shape[long[0]]) if len(long) == 1 and shape[long[0]] == sizes[source.axis] else None


def counted_axis(value: ir.Value) -> int | None:
    """The axis along which a value is 0, 1 .. n - 1, if its elements depend on no other axis; else None."""
    views: list[Op] = []
    source = op_of(value)
    while source is not None and isinstance(source, Reshape | BroadcastTo):
        views.append(source)
        source = op_of(source.x)
    if source is None or not isinstance(source, Iota) or source.dtype not in ("int32", "int64"):
        return None  # narrow types wrap
    axis, shape = source.axis % len(source.shape), result_type(source).shape
    for view in reversed(views):
        to = result_type(view).shape
        if isinstance(view, BroadcastTo):
            axis += len(to) - len(shape)
            if to[axis] != source.shape[source.axis]:
                return None
        else:
            have, want = ([i for i, d in enumerate(dims) if d != 1] for dims in (shape, to))
            if [shape[i] for i in have] != [to[i] for i in want] or axis not in have:
                return None
            axis = want[have.index(axis)]
        shape = to
    return axis


@law("ge", "lt")
def positions_are_not_negative(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """iota >= 0 is true, iota < 0 is false"""
    if splat(op.rhs) != 0 or _counted(op.lhs) is None or result_type(op).shape != type_of(op.lhs).shape:
        return None
    return full(isinstance(op, Ge), result_type(op))


@law("gather")
def look_up_in_order(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x.reshape(n * m, ..)[i * m + k] = x[i, k], if i and k count all indices of x's first two axes"""
    flat, total = is_named(op.x, "reshape"), is_named(op.indices, "add")
    if flat is None or total is None or op.axis != 0 or type_of(flat.x).rank < 2:
        return None
    for steps, last in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
        scaled = is_named(steps, "mul")
        inner = _counted(last)
        if scaled is None or inner is None:
            continue
        for first, size in ((scaled.lhs, scaled.rhs), (scaled.rhs, scaled.lhs)):
            outer = _counted(first)
            if (
                outer is None
                or _size(size) != inner[1]
                or outer[0] >= inner[0]
                or type_of(first).rank != type_of(last).rank
            ):
                continue
            shape = type_of(flat.x).shape
            if shape[:2] != (outer[1], inner[1]) or type_of(op.x).shape != (
                outer[1] * inner[1],
                *type_of(op.x).shape[1:],
            ):
                continue
            return ops.reshape(flat.x, shape=result_type(op).shape)
    return None


def _size(value: ir.Value) -> Dim | None:
    """The size or integer in a tensor of one element."""
    source = is_named(value, "dim_values")
    if source is not None and len(source.dims) == 1:
        return source.dims[0]
    number = splat(value)
    return int(number) if number is not None and type_of(value).elements == 1 else None


@law("gather_nd")
def look_up_in_grid(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x[i, k] = x, if i and k count all indices of x's axes along axes of their own: how vmap indexes a padding mask"""
    joined, shape = is_named(op.indices, "concat"), type_of(op.x).shape
    if joined is None or op.batch_dims or joined.axis % type_of(op.indices).rank != type_of(op.indices).rank - 1:
        return None
    axes = [counted_axis(part) for part in joined.xs]
    result = result_type(op).shape
    if len(axes) != len(shape) or any(type_of(part).shape[-1] != 1 for part in joined.xs):
        return None
    known = [a for a in axes if a is not None]
    if len(set(known)) < len(axes) or [result[a] for a in known] != list(shape):
        return None
    order = tuple(sorted(range(len(axes)), key=lambda k: known[k]))
    view = tuple(d if i in known else 1 for i, d in enumerate(result))
    return broadcast_to(ops.reshape(transpose(op.x, order), shape=view), result)


@law("gather")
def look_up_all(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x.reshape(n * m)[i * m + c] = x, if i counts to n and the constant c counts to m: PyTorch's as_strided of a whole tensor"""
    total = is_named(op.indices, "add")
    if total is None or op.axis != 0 or type_of(op.x).rank != 1:
        return None
    for steps, last in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
        numbers = known_array(last, rewriter.weights)
        scaled = _unshaped(steps)
        if numbers is None or not isinstance(scaled, Mul) or (numbers.reshape(-1) != np.arange(numbers.size)).any():
            continue
        for first, size in ((scaled.lhs, scaled.rhs), (scaled.rhs, scaled.lhs)):
            outer = _counted(first)
            shape = result_type(op).shape
            if outer is None or _size(size) != numbers.size or type_of(op.x).shape != (outer[1] * numbers.size,):
                continue
            if shape[0] == outer[1] and type_of(steps).shape[0] == outer[1] and numbers.shape[:1] == (1,):
                return ops.reshape(op.x, shape=shape)
    return None


def _unshaped(value: ir.Value) -> Op | None:
    """The op behind reshapes."""
    source = op_of(value)
    while source is not None and isinstance(source, Reshape):
        source = op_of(source.x)
    return source
