"""Moves views past other ops: views meet and cancel, and factors meet the contraction that absorbs them."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import FUNCTIONS, Pointwise
from burn.dialect.query import is_named, op_of, splat, used_once
from burn.dialect.types import type_of
from burn.kernels.lower import reshape_blocks
from burn.passes.algebra.law import Rewriter, law, ones


@law("mul", "div", absorbs=True)
def factor_before_view(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """reshape(x) * c = reshape(x * c) for a number c; the same for transposes and broadcasts"""
    view = is_named(op.lhs, "reshape", "transpose", "broadcast_to")
    if view is None or splat(op.rhs) is None or not ones(type_of(op.rhs).shape) or not used_once(op.lhs):
        return None
    if rewriter.constant(op.lhs) or type_of(op.rhs).rank > type_of(op.lhs).rank:
        return None
    number = ops.reshape(op.rhs, shape=()) if type_of(op.rhs).rank else op.rhs
    return type(view).build(type(op).build(view.x, number), **view.attrs)


@law("cast")
def narrow_before_reshape(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """cast(reshape(x)) = reshape(cast(x)) for a type of fewer bytes: x need not be in memory, if its producer also casts it"""
    view, dtype = is_named(op.x, "reshape"), type_of(op.operation.results[0])
    if view is None or not used_once(op.x) or rewriter.constant(op.x) or op_of(view.x) is None or _splits_rows(view):
        return None
    if dtype.element_bytes >= type_of(op.x).element_bytes:
        return None
    return ops.reshape(type(op).build(view.x, **op.attrs), shape=view.shape)


@law("reshape")
def reshape_around_transpose(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """reshape(transpose(reshape(x))) = transpose(x), if axes are merged, moved and split again into the same axes"""
    transpose = is_named(op.x, "transpose")
    merge = is_named(transpose.x, "reshape") if transpose is not None else None
    if transpose is None or merge is None:
        return None
    before = type_of(merge.x).shape
    groups: dict[int, list[int]] = {}  # an axis of the merged shape -> the axes that it merges
    for mine, theirs in reshape_blocks(merge.shape, before):
        if len(mine) != 1:
            return None
        groups[mine[0]] = theirs
    order = [axis for p in transpose.permutation for axis in groups[p]]
    if op.shape != tuple(before[axis] for axis in order):
        return None
    return ops.transpose(merge.x, permutation=tuple(order))


def _splits_rows(op: Op) -> int:
    """The number of axes that a reshape splits its operand's first axis into; 0 for any other reshape."""
    before = type_of(op.x).shape
    extra = len(op.shape) - len(before) + 1
    if extra < 2 or not before or before[1:] != op.shape[extra:] or product(op.shape[:extra]) != before[0]:
        return 0
    return extra if sum(d != 1 for d in op.shape[:extra]) > 1 else 0


@law("reshape")
def split_rows_before(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """Splits rows before a matmul or a pointwise op rather than after: reshape(x . w) = reshape(x) . w

    Exporters merge batch and sequence around every matmul: the reshapes meet and cancel.
    """
    extra = _splits_rows(op)
    source = op_of(op.x)
    if not extra or source is None or not used_once(op.x) or rewriter.constant(op.x):
        return None
    rows = op.shape[:extra]
    if isinstance(source, DotGeneral):
        return _split_matmul(source, rows)
    return _split_pointwise(rewriter, source, rows) if isinstance(source, Pointwise) else None


def _split_matmul(dot: Op, rows: tuple[Dim, ...]) -> ir.Value | None:
    """The matmul with its lhs's first axis, a free one, split."""
    shape = type_of(dot.lhs).shape
    if not shape or dot.lhs_batch or 0 in dot.lhs_contract:  # the first axis is the rhs's
        return None
    left = ops.reshape(dot.lhs, shape=(*rows, *shape[1:]))
    moved = tuple(a + len(rows) - 1 for a in dot.lhs_contract)
    return ops.dot_general(left, dot.rhs, **(dot.attrs | {"lhs_contract": moved}))


def _split_pointwise(rewriter: Rewriter, op: Op, rows: tuple[Dim, ...]) -> ir.Value | None:
    """The op on operands whose first axis is split, if they have it."""
    whole = type_of(op.operation.results[0]).shape
    operands: list[ir.Value] = []
    for value in op.operation.operands:
        shape = type_of(value).shape
        if len(shape) == len(whole):
            if rewriter.constant(value):
                if shape[0] != 1:
                    return None
                operands.append(value)  # it has one row, which broadcasts
                continue
            if shape[0] not in (1, whole[0]):
                return None
            front = rows if shape[0] != 1 else (1,) * len(rows)
            value = ops.reshape(value, shape=(*front, *shape[1:]))
        operands.append(value)
    return type(op).build(*operands, **op.attrs)


@law("reduce")
def keep_reduced_axes(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(x) without the axes = reshape(sum(x) with axes of size 1)

    The result then broadcasts against x without another view, and means and variances have one form.
    """
    if op.keepdims or len(op.axes) == type_of(op.x).rank:
        return None
    kept = ops.reduce(op.x, kind=op.kind, axes=op.axes, keepdims=True)
    return ops.reshape(kept, shape=type_of(op.operation.results[0]).shape)


@law(*(f.name for f in FUNCTIONS), "select", "cast")
def squeeze_after(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """f(reshape(x), reshape(y)) = reshape(f(x, y)) for reshapes that drop axes of size 1, so that they meet reshapes that add
    them; numbers may be among the operands"""
    values = list(op.operation.operands)
    views = [is_named(value, "reshape") for value in values]
    if all(view is None for view in views):
        return None
    shape = type_of(op.operation.results[0]).shape
    source: tuple[Dim, ...] | None = None
    operands: list[ir.Value] = []
    for value, view in zip(values, views, strict=True):
        if not type_of(value).shape:
            operands.append(value)
            continue
        if view is None or op_of(view.x) is None or not squeezed_axes(view) or view.shape != shape:
            return None
        if source not in (None, type_of(view.x).shape):
            return None
        source = type_of(view.x).shape
        operands.append(view.x)
    if source is None or rewriter.constant(op.operation.results[0]):
        return None
    return ops.reshape(type(op).build(*operands, **op.attrs), shape=shape)


@law("reduce")
def squeeze_after_reduce(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(reshape(x)) = reshape(sum(x)) for a reshape that drops axes of size 1"""
    view = is_named(op.x, "reshape")
    axes_left = squeezed_axes(view) if view is not None else []
    if view is None or not axes_left:
        return None
    total = ops.reduce(view.x, kind=op.kind, axes=tuple(axes_left[a] for a in op.axes), keepdims=True)
    return ops.reshape(total, shape=type_of(op.operation.results[0]).shape)


def squeezed_axes(view: Op) -> list[int]:
    """For a reshape that only drops axes of size 1: the operand's axis for each of its axes; otherwise empty."""
    before = type_of(view.x).shape
    axes_left: list[int] = []
    for axis, d in enumerate(before):
        if len(axes_left) < len(view.shape) and view.shape[len(axes_left)] == d:
            axes_left.append(axis)
        elif d != 1:
            return []
    return axes_left if len(axes_left) == len(view.shape) < len(before) else []
