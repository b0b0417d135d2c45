"""Distances of rows: of two sets, and of the pairs of one."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, reshape
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.view import part


@aten("_cdist_forward.default")
def cdist(node: Node, a: ir.Value, b: ir.Value, p: float, mode: int | None) -> ir.Value:
    """Distances of rows [.., m, d] and [.., n, d] -> [.., m, n]."""
    s, t = type_of(a).shape, type_of(b).shape
    gap = ops.abs(ops.sub(reshape(a, (*s[:-1], 1, s[-1])), reshape(b, (*t[:-2], 1, *t[-2:]))))
    return distance(gap, p)


@aten("_pdist_forward.default")
def pdist(node: Node, x: ir.Value, p: float = 2.0) -> ir.Value:
    """Distances of the rows i < j of x [n, d], in the order of (i, j): [n (n - 1) / 2]."""
    n = type_of(x).shape[0]
    before = ops.lt(ops.iota(shape=(n, 1), axis=0), ops.iota(shape=(1, n), axis=1))
    count = node.new_size("pairs")
    places = ops.nonzero(before, count=str(count))
    first, second = (ops.gather(x, reshape(part(places, 0, i, 1), (count,)), axis=0) for i in (0, 1))
    return reshape(distance(ops.abs(ops.sub(first, second)), p), node.shape)


def distance(gap: ir.Value, p: float) -> ir.Value:
    """The p-norm along the last axis of numbers that are not negative."""
    axes = (type_of(gap).rank - 1,)
    if p == 2:
        return ops.sqrt(ops.reduce(ops.mul(gap, gap), kind="sum", axes=axes))
    if p == 0:
        return ops.reduce(convert(ops.ne(gap, number_like(0, gap)), type_of(gap).dtype), kind="sum", axes=axes)
    if p in (1, float("inf")):
        return ops.reduce(gap, kind="sum" if p == 1 else "max", axes=axes)
    total = ops.reduce(ops.pow(gap, number_like(p, gap)), kind="sum", axes=axes)
    return ops.pow(total, number_like(1 / p, total))
