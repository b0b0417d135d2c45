"""Reductions over nothing, over ones, and successive ones; padding before windows."""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number_like, reshape, wide
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, result_type, splat, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full


@law("reduce")
def reduce_ones(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A reduction over axes of size 1 is a reshape."""
    shape = type_of(op.x).shape
    if any(shape[a] != 1 for a in op.axes):
        return None
    return op.x if result_type(op).shape == shape else ops.reshape(op.x, shape=result_type(op).shape)


@law("reduce")
def reduce_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(sum(x, a), b) = sum(x, a and b), for every kind of reduction except prod of floats, which overflows only in
    one of the two orders"""
    inner = is_named(op.x, "reduce")
    if inner is None or inner.kind != op.kind or not used_once(op.x):
        return None
    if op.kind == "prod" and DTYPES[result_type(op).dtype].kind not in ("int", "uint", "bool"):
        return None
    rank = type_of(inner.x).rank
    first = {a % rank for a in inner.axes}
    axis_of = list(range(rank)) if inner.keepdims else [a for a in range(rank) if a not in first]
    axes = first | {axis_of[a] for a in op.axes}
    total = ops.reduce(inner.x, kind=op.kind, axes=tuple(sorted(axes)), keepdims=inner.keepdims and op.keepdims)
    have, want = type_of(total), result_type(op)
    return total if have == want else ops.reshape(total, shape=want.shape)


@law("reduce")
def reduce_broadcast(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(broadcast(x)) = sum(x) * n, where each element of x is repeated n times along reduced axes; max(broadcast(x)) = max(x).
    For sums of floats, and for max, min, any and all along axes that are known not to be empty."""
    inner = is_named(op.x, "broadcast_to")
    if inner is None:
        return None
    type_, have = type_of(op.x), type_of(inner.x).shape
    have = (*(1,) * (type_.rank - len(have)), *have)
    axes = {a % type_.rank for a in op.axes}
    repeated = [a for a in sorted(axes) if have[a] == 1 and type_.shape[a] != 1]
    count = product([type_.shape[a] for a in repeated])
    if not repeated or not isinstance(count, int) or not count:
        return None
    if op.kind not in ("max", "min", "any", "all") and not (op.kind == "sum" and DTYPES[type_.dtype].kind == "float"):
        return None
    left = tuple(1 if a in repeated else d for a, d in enumerate(type_.shape))
    x = broadcast_to(reshape(inner.x, have), left)
    if op.kind != "sum":
        return ops.reduce(x, kind=op.kind, axes=op.axes, keepdims=op.keepdims)
    total = ops.reduce(convert(x, wide(type_.dtype)), kind="sum", axes=op.axes, keepdims=op.keepdims)
    return convert(ops.mul(total, number_like(count, total)), type_.dtype)


def identity(kind: str, dtype: str) -> float:
    """The value of elements outside of a window reduction's operand."""
    info = DTYPES[dtype]
    if kind in ("sum", "prod", "any", "all"):
        return 0 if kind in ("sum", "any") else 1
    if info.kind == "float":
        return -math.inf if kind == "max" else math.inf
    low, high = (-(2 ** (info.bits - 1)), 2 ** (info.bits - 1) - 1) if info.kind == "int" else (0, 2**info.bits - 1)
    return low if kind == "max" else high


@law("reduce")
def extreme_of_splat(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """max(c, c, ..) = c, of at least one element; the same for min, and for any and all of booleans"""
    number, shape = splat(op.x), type_of(op.x).shape
    known = all(isinstance(shape[a], int) and shape[a] != 0 for a in op.axes)
    if number is None or not known or op.kind not in ("max", "min", "any", "all"):
        return None
    return full(number, result_type(op))


@law("window_reduce")
def window_within_reach(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A window without the taps that are in the padding at every position: a window far larger than its axis costs no
    more than the axis."""
    rows = list(zip(type_of(op.x).shape, op.window, op.strides, op.dilations, op.low, op.high, strict=True))
    known = [all(isinstance(each, int) for each in row) for row in rows]
    made = [_within_reach(*row) if fits else (row[1], *row[4:]) for row, fits in zip(rows, known, strict=True)]
    window, low, high = map(tuple, zip(*made, strict=True)) if made else ((), (), ())
    if window == op.window:
        return None
    return ops.window_reduce(op.x, **(op.attrs | {"window": window, "low": low, "high": high}))


def _within_reach(size: int, window: int, stride: int, dilation: int, low: int, high: int) -> tuple[int, int, int]:
    """The window and the padding around it that remain."""
    last = (
        low + size + high - ((window - 1) * dilation + 1)
    ) // stride * stride - low  # where the last position begins
    kept = min(window, max(1, -(-(size + low) // dilation)))  # of the first position
    kept += (window - kept) * dilation > high
    front = min(max(0, -(-max(0, -last) // dilation)), kept - 1)
    front -= front * dilation > low
    if last < -low or kept > window:
        return window, low, high
    return kept - front, low - front * dilation, high - (window - kept) * dilation


@law("window_reduce")
def pad_before_window(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """window_reduce(pad(x, identity)) = window_reduce(x) with larger padding"""
    pad = is_named(op.x, "pad")
    if pad is None or any(pad.interior) or splat(pad.value) != identity(op.kind, type_of(pad.x).dtype):
        return None
    low = tuple(a + b for a, b in zip(op.low, pad.low, strict=True))
    high = tuple(a + b for a, b in zip(op.high, pad.high, strict=True))
    return ops.window_reduce(pad.x, **(op.attrs | {"low": low, "high": high}))
