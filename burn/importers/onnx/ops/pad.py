"""Pad: with a constant, or with the operand's own elements repeated, reflected or wrapped around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import border_indices, number, reshape
from burn.dialect.dims import Dim, dim_max, non_negative
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.runtime import as_int64, integers, known_axes, length, read_sizes, scattered


@onnx_op("Pad")
def pad(node: Node) -> ir.Value:
    x, rank = node.required(0), node.type(0).rank
    mode = node.string("mode", "constant")
    low, crop_low, high, crop_high = _pads(node, rank)
    if mode == "constant":
        dtype = type_of(x).dtype
        if node.opset < 11:
            value = number(node.float("value", 0.0), dtype)
        else:
            value = reshape(node.input(2), ()) if node.has_input(2) else number(0, dtype)
        x = _cropped(x, crop_low, crop_high)
        return x if not any((*low, *high)) else ops.pad(x, value, low=tuple(low), high=tuple(high))
    if mode not in ("reflect", "edge", "wrap"):
        node.fail(f"'{mode}' is none of constant, reflect, edge, wrap", "mode")
    node.no_effect("value", 2, because="only mode constant pads with a value")
    for axis in range(rank):
        before, after = low[axis] - crop_low[axis], high[axis] - crop_high[axis]
        if before != 0 or after != 0:
            indices = border_indices(mode, type_of(x).shape[axis], before, after)
            x = ops.gather(x, indices, axis=axis)
    return x


def _pads(node: Node, rank: int) -> tuple[list[Dim], list[Dim], list[Dim], list[Dim]]:
    """The padding and the cropping: before each axis, and after it."""
    if node.opset < 11:
        given: Sequence[Dim] | None = node.ints("pads" if node.opset >= 2 else "paddings")
    else:
        given = node.dims(1)
    axes: Any = tuple(range(rank))
    if node.has_input(3):
        axes = known_axes(node, 3)
    if given is None or axes is None:
        return _runtime_pads(node, rank)
    at = node.axes(axes, rank)
    if len(given) != 2 * len(at):
        node.fail(f"{len(given)} pads do not fit {len(at)} axes", "pads")
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for k, axis in enumerate(at):
        before[axis], after[axis] = given[k], given[k + len(at)]
    return _positive(before), _positive([p * -1 for p in before]), _positive(after), _positive([p * -1 for p in after])


def _positive(pads: list[Dim]) -> list[Dim]:
    return [p if non_negative(p) else dim_max(p, 0) for p in pads]


def _runtime_pads(node: Node, rank: int) -> tuple[list[Dim], list[Dim], list[Dim], list[Dim]]:
    pads, count = as_int64(node, 1), length(node, 1)
    befores = [ops.slice(pads, starts=(i * (count // 2),), sizes=(count // 2,), steps=(1,)) for i in (0, 1)]
    if node.has_input(3):
        zeros = integers(node, [0] * rank)
        befores = [scattered(node, as_int64(node, 3), zeros, half) for half in befores]
    elif count != 2 * rank:
        node.fail(f"{count} pads do not fit {node.type(0)}", "pads")
    zero, shape = number(0, "int64"), node.type(0).shape
    (low, cut), (high, cut_high) = ([ops.max(half, zero), ops.max(ops.neg(half), zero)] for half in befores)
    kept = ops.sub(integers(node, list(shape)), ops.add(cut, cut_high))
    total = ops.add(kept, ops.add(low, high))
    # The kept and the total sizes get names of their own: expressions for strides over sums of sizes would grow long.
    added, taken, left, wanted = (read_sizes(node, part) for part in (low, cut, kept, total))
    rows = list(zip(shape, added, taken, left, wanted, strict=True))
    return list(added), list(taken), [w - k - a for _, a, _, k, w in rows], [d - t - k for d, _, t, k, _ in rows]


def _cropped(x: ir.Value, before: Sequence[Dim], after: Sequence[Dim]) -> ir.Value:
    if not any((*before, *after)):
        return x
    shape = type_of(x).shape
    sizes = tuple(d - a - b for d, a, b in zip(shape, before, after, strict=True))
    return ops.slice(x, starts=tuple(before), sizes=sizes, steps=(1,) * len(shape))
