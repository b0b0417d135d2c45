"""Reductions over axes and windows, select_and_scatter, map, normalisation, and chlo's scan."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.lax import reduction, windows
from burn.importers.lax.conversion import convert_element_type
from burn.importers.lax.scalars import is_empty
from burn.importers.lax.select_and_scatter import select_and_scatter as lax_select_and_scatter
from burn.importers.lax.shaping import broadcast_in_dim
from burn.importers.stablehlo.node import Node, rule
from burn.importers.stablehlo.regions import combination, extreme

Value = ir.Value

KINDS = {"add": "sum", "mul": "prod"}
"""Names of reductions, where they differ from those of a scatter."""

WINDOWS = frozenset(("sum", "prod", "max", "min"))


@rule("reduce")
def reduce(node: Node) -> list[Value]:
    """The initial value is combined with the reduction of the elements: reductions are associative, in any order. (XLA leaves it
    out where it reduces single elements.)"""
    axes = node.ints("dimensions")
    count = len(node.operands) // 2
    xs, starts = node.xs[:count], node.xs[count:]
    kinds = combination(node, count)
    if kinds is not None and "none" not in kinds:
        found = [reduction.reduce(x, KINDS.get(k, k), axes) for x, k in zip(xs, kinds, strict=True)]
        return [_started(x, start, kind) for x, start, kind in zip(found, starts, kinds, strict=True)]
    kind = extreme(node) if count == 2 and len(axes) == 1 else None
    if kind is not None:
        found = _extreme(node, xs, starts, kind, axes[0])
        if found is not None:
            return found
    block = node.block()
    return reduction.reduce_with(xs, starts, axes, lambda a, b: node.build(block, [*a, *b], lifted=True))


def _started(x: Value, start: Value, kind: str) -> Value:
    if type_of(x).dtype == "bool":
        kind = {"add": "or", "mul": "and", "max": "or", "min": "and"}.get(kind, kind)
    return reduction.COMBINE[KINDS.get(kind, kind)](x, start)


def _extreme(
    node: Node, xs: Sequence[Value], starts: Sequence[Value], kind: tuple[str, bool], axis: int
) -> list[Value] | None:
    """The extreme and its index, if the indices are 0, 1, 2 .. along the axis, as argmax and argmin write them. The initial pair
    takes part as one more element."""
    x, indices = xs
    made = indices.owner
    operation = made.opview if isinstance(made, ir.Operation) else made
    if getattr(operation, "OP_NAME", "") == "cast":
        made = operation.operands[0].owner
        operation = made.opview if isinstance(made, ir.Operation) else made
    if getattr(operation, "OP_NAME", "") != "iota" or operation.axis != axis or is_empty(type_of(x).shape):
        return None
    name, lowest = kind
    found = ops.arg_reduce(
        convert(x, "uint8") if type_of(x).dtype == "bool" else x, kind=name, axis=axis, last=not lowest
    )
    index = convert_element_type(found, type_of(indices).dtype)
    shape = type_of(found).shape
    here = reshape(found, (*shape[:axis], 1, *shape[axis:]))
    value = reshape(ops.gather_elements(x, here, axis=axis), shape)
    spread = [broadcast_to(start, shape) for start in starts]
    block = node.block()
    return node.build(block, [spread[0], spread[1], value, index], lifted=True)


@rule("map")
def map_(node: Node) -> list[Value]:
    """A region of scalars, for every element. The axes are all axes."""
    axes = node.ints("dimensions")
    if list(axes) != list(range(type_of(node.x(0)).rank)):
        node.fail(f"maps over the axes {list(axes)}, and all axes are meant")
    found = node.build(node.block(), node.xs, lifted=True)
    return [broadcast_to(value, type_of(node.x(0)).shape) for value in found]


# ---- windows -------------------------------------------------------------------------------------------------------------
@rule("reduce_window")
def reduce_window(node: Node) -> list[Value]:
    count = len(node.operands) // 2
    xs, starts = node.xs[:count], node.xs[count:]
    rank = type_of(xs[0]).rank
    ones = (1,) * rank
    how = (
        node.ints("window_dimensions"),
        node.ints("window_strides", ones),
        node.padding("padding", rank),
        node.ints("base_dilations", ones),
        node.ints("window_dilations", ones),
    )
    kinds = combination(node, count)
    if kinds is not None and all(KINDS.get(k, k) in WINDOWS for k in kinds):
        along = _running(node, xs, kinds, how)
        if along is not None:
            found = along
        else:
            found = [windows.reduce_window(x, KINDS.get(k, k), *how) for x, k in zip(xs, kinds, strict=True)]
        return [_started(x, start, kind) for x, start, kind in zip(found, starts, kinds, strict=True)]
    block = node.block()
    return windows.reduce_window_with(xs, starts, *how, lambda a, b: node.build(block, [*a, *b], lifted=True))


def _running(node: Node, xs: Sequence[Value], kinds: Sequence[str], how: tuple) -> list[Value] | None:
    """Windows from an axis' beginning to each element (or from each to its end) as running reductions: jax's cumsum and the
    like. None for other windows."""
    window, strides, padding, base, dilations = how
    shape = type_of(xs[0]).shape
    moving = [axis for axis, size in enumerate(window) if size != 1]
    ones = (1,) * len(shape)
    if len(moving) != 1 or (strides, base, dilations) != (ones, ones, ones) or type_of(xs[0]).dtype == "bool":
        return None
    (axis,) = moving
    size = window[axis]
    rest = all(pair == (0, 0) for a, pair in enumerate(padding) if a != axis)
    if not rest or shape[axis] != size or padding[axis] not in ((size - 1, 0), (0, size - 1)):
        return None
    reverse = padding[axis] == (0, size - 1)
    return [reduction.cumulative(x, KINDS.get(k, k), axis, reverse) for x, k in zip(xs, kinds, strict=True)]


@rule("select_and_scatter")
def select_and_scatter(node: Node) -> Value:
    x, source, start = node.xs
    rank = type_of(x).rank
    ones = (1,) * rank
    first, second = node.block(0), node.block(1)

    def select(a: Value, b: Value) -> Value:
        return node.one(first, a, b)

    names = [op.name for op in second.ops[:-1]]
    arguments = [name for name, _, _ in second.arguments]
    known = {
        "stablehlo.add": "add",
        "stablehlo.maximum": "max",
        "stablehlo.minimum": "min",
        "stablehlo.multiply": "mul",
    }
    simple = len(names) == 1 and names[0] in known and sorted(second.ops[0].operands) == sorted(arguments)
    combine = known[names[0]] if simple else lambda a, b: node.one(second, a, b)
    window, strides = node.ints("window_dimensions", ones), node.ints("window_strides", ones)
    return lax_select_and_scatter(x, source, start, select, combine, window, strides, node.padding("padding", rank))


# ---- normalisation -------------------------------------------------------------------------------------------------------
def _along(node: Node, x: Value, like: Value) -> Value:
    """A value for each feature, on the feature axis."""
    return broadcast_in_dim(x, type_of(like).shape, [node.integer("feature_index")])


def _others(node: Node, x: Value) -> tuple[int, ...]:
    return tuple(axis for axis in range(type_of(x).rank) if axis != node.integer("feature_index"))


def _size(node: Node, x: Value) -> Dim:
    size: Dim = 1
    for axis in _others(node, x):
        size = size * type_of(x).shape[axis]
    return size


def _mean(node: Node, x: Value) -> Value:

    total = reduction.reduce(x, "sum", _others(node, x))
    return ops.div(total, dim_value(_size(node, x), type_of(x).dtype))


def _epsilon(node: Node, x: Value) -> Value:

    return number(node.number("epsilon"), type_of(x).dtype)


@rule("batch_norm_inference")
def batch_norm_inference(node: Node) -> Value:
    x, scale, offset, mean, variance = node.xs
    share = ops.div(ops.sub(x, _along(node, mean, x)), ops.sqrt(ops.add(_along(node, variance, x), _epsilon(node, x))))
    return ops.add(ops.mul(_along(node, scale, x), share), _along(node, offset, x))


@rule("batch_norm_training")
def batch_norm_training(node: Node) -> list[Value]:
    """The normalised operand, and the mean and variance of each feature."""
    x, scale, offset = node.xs
    mean = _mean(node, x)
    centered = ops.sub(x, _along(node, mean, x))
    variance = _mean(node, ops.mul(centered, centered))
    deviation = ops.sqrt(ops.add(_along(node, variance, x), _epsilon(node, x)))
    y = ops.add(ops.mul(_along(node, scale, x), ops.div(centered, deviation)), _along(node, offset, x))
    return [y, mean, variance]


@rule("batch_norm_grad")
def batch_norm_grad(node: Node) -> list[Value]:
    """Gradients of operand, scale and offset."""

    x, scale, mean, variance, g = node.xs
    count = dim_value(_size(node, x), type_of(x).dtype)
    centered = ops.sub(x, _along(node, mean, x))
    deviation = ops.sqrt(ops.add(_along(node, variance, x), _epsilon(node, x)))
    others = _others(node, x)
    total = reduction.reduce(g, "sum", others)
    weighted = reduction.reduce(ops.mul(g, centered), "sum", others)
    scale_gradient = reduction.reduce(ops.mul(g, ops.div(centered, deviation)), "sum", others)
    first = ops.sub(ops.mul(count, g), _along(node, total, x))
    spread = ops.div(ops.mul(_along(node, weighted, x), centered), ops.mul(deviation, deviation))
    share = ops.div(ops.div(_along(node, scale, x), deviation), count)
    return [ops.mul(share, ops.sub(first, spread)), scale_gradient, total]
