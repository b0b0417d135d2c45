"""sort by any comparator, and top_k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect.compose import convert
from burn.dialect.mlir import ir
from burn.importers.lax import sort as lax
from burn.importers.stablehlo.node import Node, rule
from burn.importers.stablehlo.regions import comparator

Value = ir.Value


@rule("sort")
def sort(node: Node) -> list[Value]:
    """Stable, as the attribute allows in any case. A comparator that orders by keys gives a sort by keys; any other compares all
    pairs."""
    node.no_effect("is_stable")
    axis, xs = node.integer("dimension", -1), node.xs
    keys = comparator(node, len(xs))
    if keys is not None:
        return lax.sort(xs, axis, keys)
    block = node.block()

    def before(first: Sequence[Any], second: Sequence[Any]) -> Value:
        pairs = [value for pair in zip(first, second, strict=True) for value in pair]
        return node.one(block, *pairs)

    return lax.sort_by(xs, axis, before)


@rule("top_k", dialect="chlo")
def top_k(node: Node) -> list[Value]:
    """In descending total order, the earlier of equal elements first."""
    values, indices = lax.top_k(node.x(0), node.integer("k"))
    index = node.result(1).element
    return [values, convert(indices, index if isinstance(index, str) else "int32")]
