"""Losses, whole: their parts have kinks, or quotients of 0 and 0, where they have none."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, mean, number_like, wide
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten

NONE, MEAN, SUM = range(3)
"""torch's codes of reductions."""


def _reduced(node: Node, loss: ir.Value, reduction: int) -> ir.Value:
    axes = tuple(range(type_of(loss).rank))
    value = convert(loss, wide(node.dtype))
    if reduction != NONE:
        value = mean(value, axes) if reduction == MEAN else ops.reduce(value, kind="sum", axes=axes)
    return convert(value, node.dtype)


def _wide(node: Node, *values: ir.Value) -> list[ir.Value]:
    return [convert(v, wide(node.dtype)) for v in values]


@aten("huber_loss.default", "smooth_l1_loss.default")
def huber_loss(node: Node, x: ir.Value, target: ir.Value, reduction: int = MEAN, bound: float = 1.0) -> ir.Value:
    """Quadratic within the bound, linear beyond; smooth_l1_loss is huber_loss over the bound."""
    x, target = _wide(node, x, target)
    gap = ops.sub(x, target)
    size = ops.abs(gap)
    smooth = "smooth" in node.op
    if bound == 0:
        return _reduced(node, size if smooth else ops.mul(size, number_like(0.0, size)), reduction)
    limit = number_like(bound, gap)
    inside = ops.lt(size, limit)
    near = ops.select(inside, gap, number_like(0.0, gap))  # the square's derivative is not to be 0 times infinity
    square = ops.mul(ops.mul(near, near), number_like(0.5 / bound if smooth else 0.5, gap))
    line = ops.sub(size, number_like(0.5 * bound, gap))
    line = line if smooth else ops.mul(line, limit)
    return _reduced(node, ops.select(inside, square, line), reduction)


@aten("soft_margin_loss.default")
def soft_margin_loss(node: Node, x: ir.Value, target: ir.Value, reduction: int = MEAN) -> ir.Value:
    x, target = _wide(node, x, target)
    return _reduced(node, ops.softplus(ops.neg(ops.mul(x, target))), reduction)


@aten("binary_cross_entropy.default")
def binary_cross_entropy(
    node: Node, x: ir.Value, target: ir.Value, weight: ir.Value | None = None, reduction: int = MEAN
) -> ir.Value:
    x, target = _wide(node, x, target)
    loss = ops.binary_cross_entropy(x, target)
    return _reduced(node, loss if weight is None else ops.mul(loss, *_wide(node, weight)), reduction)


@aten("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    node: Node,
    x: ir.Value,
    target: ir.Value,
    weight: ir.Value | None = None,
    pos_weight: ir.Value | None = None,
    reduction: int = MEAN,
) -> ir.Value:
    """(1 - target) x + (1 + (pos_weight - 1) target) softplus(-x)"""
    x, target = _wide(node, x, target)
    one = number_like(1.0, x)
    rest = ops.softplus(ops.neg(x))
    if pos_weight is not None:
        (positive,) = _wide(node, pos_weight)
        rest = ops.mul(ops.add(ops.mul(ops.sub(positive, one), target), one), rest)
    loss = ops.add(ops.mul(ops.sub(one, target), x), rest)
    return _reduced(node, loss if weight is None else ops.mul(loss, *_wide(node, weight)), reduction)
