"""Distances of rows: of two sets, and of the pairs of one."""

from __future__ import annotations

import math
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, part, reshape, wide
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, type_of
from burn.importers.torch.node import Node, aten


@aten("_cdist_forward.default")
def cdist(node: Node, a: ir.Value, b: ir.Value, p: float, mode: int | None) -> ir.Value:
    """Distances of rows [.., m, d] and [.., n, d] -> [.., m, n]."""
    s, t = type_of(a).shape, type_of(b).shape
    gap = ops.sub(reshape(a, (*s[:-1], 1, s[-1])), reshape(b, (*t[:-2], 1, *t[-2:])))
    return distance(gap, p)


@aten("_pdist_forward.default")
def pdist(node: Node, x: ir.Value, p: float = 2.0) -> ir.Value:
    """Distances of the rows i < j of x [n, d], in the order of (i, j): [n (n - 1) / 2]."""
    n = type_of(x).shape[0]
    before = ops.lt(ops.iota(shape=(n, 1), axis=0), ops.iota(shape=(1, n), axis=1))
    count = node.new_size("pairs")
    indices = ops.nonzero(before, count=str(count))
    first, second = (ops.gather(x, reshape(part(indices, 0, i, 1), (count,)), axis=0) for i in (0, 1))
    return reshape(distance(ops.sub(first, second), p), node.shape)


def distance(gap: ir.Value, p: float) -> ir.Value:
    """The p-norm along the last axis."""
    return norm(gap, p, (type_of(gap).rank - 1,))


def norm(x: ir.Value, p: float, axes: tuple[int, ...], keepdims: bool = False) -> ir.Value:
    """The p-norm over axes: the largest magnitude for infinity, how many are not 0 for p = 0."""

    def total(x: ir.Value, kind: str = "sum") -> ir.Value:
        return ops.reduce(x, kind=kind, axes=axes, keepdims=keepdims)

    if p == 2:
        return ops.root(total(ops.mul(x, x)))  # not of the magnitude, which has a kink at 0
    size, zero = ops.abs(x), number_like(0, x)
    if p == 0:
        return total(convert(ops.ne(size, zero), type_of(size).dtype))
    if p == 1 or math.isinf(p):
        return total(size, "sum" if p == 1 else "max" if p > 0 else "min")
    powers = ops.pow(size, number_like(p, size))
    if p < 1:  # the power's derivative at 0 is infinite; that of the norm is taken for 0
        none = ops.eq(size, zero)
        powers = ops.pow(ops.select(none, number_like(1, size), size), number_like(p, size))
        powers = ops.select(none, number_like(0 if p > 0 else math.inf, size), powers)
    return ops.root(total(powers), degree=float(p))


@aten("linalg_vector_norm.default")
def vector_norm(
    node: Node, x: ir.Value, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> ir.Value:
    value = convert(ops.abs(x) if type_of(x).dtype in PARTS else x, wide(node.dtype))
    if not type_of(x).rank:
        return reshape(convert(norm(reshape(value, (1,)), float(p), (0,)), node.dtype), ())
    return convert(norm(value, float(p), node.axes(dim, x), keepdim), node.dtype)
