"""Reductions over nothing, over ones, and one after another; padding in front of windows."""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, result_type, splat, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law


@law("reduce")
def reduce_ones(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A reduction over axes of size 1 is a reshape."""
    shape = type_of(op.x).shape
    if any(shape[a] != 1 for a in op.axes):
        return None
    return op.x if result_type(op).shape == shape else ops.reshape(op.x, shape=result_type(op).shape)


@law("reduce")
def reduce_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(sum(x, a), b) = sum(x, a and b), for every kind of reduction but products of floats, which overflow in one order and
    not in another"""
    inner = is_named(op.x, "reduce")
    if inner is None or inner.kind != op.kind or not used_once(op.x):
        return None
    if op.kind == "prod" and DTYPES[result_type(op).dtype].kind not in ("int", "uint", "bool"):
        return None
    rank = type_of(inner.x).rank
    first = {a % rank for a in inner.axes}
    places = list(range(rank)) if inner.keepdims else [a for a in range(rank) if a not in first]
    axes = first | {places[a] for a in op.axes}
    total = ops.reduce(inner.x, kind=op.kind, axes=tuple(sorted(axes)), keepdims=inner.keepdims and op.keepdims)
    have, want = type_of(total), result_type(op)
    return total if have == want else ops.reshape(total, shape=want.shape)


def identity(kind: str, dtype: str) -> float:
    """What a window reduction takes places outside of its operand for."""
    info = DTYPES[dtype]
    if kind in ("sum", "prod", "any", "all"):
        return 0 if kind in ("sum", "any") else 1
    if info.kind == "float":
        return -math.inf if kind == "max" else math.inf
    low, high = (-(2 ** (info.bits - 1)), 2 ** (info.bits - 1) - 1) if info.kind == "int" else (0, 2**info.bits - 1)
    return low if kind == "max" else high


@law("window_reduce")
def pad_before_window(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """window_reduce(pad(x, identity)) = window_reduce(x) with larger pads"""
    pad = is_named(op.x, "pad")
    if pad is None or any(pad.interior) or splat(pad.value) != identity(op.kind, type_of(pad.x).dtype):
        return None
    low = tuple(a + b for a, b in zip(op.low, pad.low, strict=True))
    high = tuple(a + b for a, b in zip(op.high, pad.high, strict=True))
    return ops.window_reduce(pad.x, **(op.attrs | {"low": low, "high": high}))
