"""Where contents begin, and operators that only move elements: numpy's own functions, on object arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from burn.dialect.dims import Dim, product
from burn.dialect.types import INTEGERS
from burn.importers.onnx.contents import MAX_ELEMENTS, Content, Unknown, wanted
from burn.importers.onnx.folding.rules import axes_of, integers, known, rule

if TYPE_CHECKING:
    from burn.importers.onnx.node import Node

# ---- where contents begin --------------------------------------------------------------------------------------------


@rule("Shape")
def _shape(node: Node) -> Content:
    return Content.of("int64", list(node.type(0).shape[slice_of_shape(node)]))


def slice_of_shape(node: Node) -> slice:
    """Shape's `start` and `end`, clamped as the standard says."""
    rank = node.type_only(0).rank
    start, end = node.int("start", 0), node.int("end", rank)

    def clamp(bound: int) -> int:
        return min(max(bound + rank if bound < 0 else bound, 0), rank)

    return slice(clamp(start), clamp(end))


@rule("Size")
def _size(node: Node) -> Content:
    return Content.of("int64", product(node.type_only(0).shape))


@rule("ConstantOfShape")
def _constant_of_shape(node: Node) -> Content:
    shape = _static(node.dims(0))
    value = node.tensor("value", None)
    dtype = "float32" if value is None else value.dtype
    if not wanted(dtype, math.prod(shape)):
        raise Unknown
    element = 0.0 if value is None else Content.of_numbers(dtype, value.array()).array.reshape(-1)[0]
    return Content(dtype, np.full(shape, element, object))


@rule("Range")
def _range(node: Node) -> Content:
    start, limit, delta = (known(node, i) for i in range(3))
    bounds = [c.array.reshape(-1)[0] for c in (start, limit, delta)]
    if start.dtype not in INTEGERS or not all(type(b) is int for b in bounds) or bounds[2] == 0:
        raise Unknown
    values = range(*bounds)
    if len(values) > MAX_ELEMENTS:
        raise Unknown
    return Content.of(start.dtype, list(values))


def _static(dims: Sequence[Dim] | None) -> tuple[int, ...]:
    if dims is None or not all(isinstance(d, int) for d in dims):
        raise Unknown
    return tuple(d for d in dims if isinstance(d, int))


# ---- moving elements -------------------------------------------------------------------------------------------------


@rule("Identity")
def _identity(node: Node) -> Content:
    return known(node, 0)


@rule("Gather")
def _gather(node: Node) -> Content:
    content = known(node, 0)
    axis = node.axis(node.int("axis", 0), content.array.ndim)
    indices = node.constant(1)
    if indices is None or indices.size > MAX_ELEMENTS:
        raise Unknown
    size = content.array.shape[axis]
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        node.fail(f"an index lies outside of axis {axis}, which has {size} elements: {indices.reshape(-1).tolist()}")
    return content.with_array(np.take(content.array, indices.astype(np.int64), axis=axis))


@rule("Slice")
def _slice(node: Node) -> Content:
    content = known(node, 0)
    if node.opset < 10:
        starts, ends = node.ints("starts"), node.ints("ends")
        axes, steps = node.ints("axes", None), None
    else:
        starts, ends = integers(node, 1), integers(node, 2)
        axes = integers(node, 3) if node.has_input(3) else None
        steps = integers(node, 4) if node.has_input(4) else None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * content.array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = node.axis(axis, content.array.ndim)
        size = content.array.shape[axis]
        if step < 0 and end < -size:
            index[axis] = slice(start, None, step)
        else:
            index[axis] = slice(start, end, step)
    return content.with_array(content.array[tuple(index)])


@rule("Concat")
def _concat(node: Node) -> Content:
    parts = [known(node, i) for i in range(len(node.inputs))]
    axis = node.axis(node.int("axis", 1), parts[0].array.ndim)
    if len({p.dtype for p in parts}) > 1 or len({p.array.shape[:axis] + p.array.shape[axis + 1 :] for p in parts}) > 1:
        raise Unknown  # the builder says what is wrong
    return parts[0].with_array(np.concatenate([p.array for p in parts], axis=axis))


@rule("Split")
def _split(node: Node) -> list[Content]:
    content = known(node, 0)
    axis = node.axis(node.int("axis", 0), content.array.ndim)
    size = content.array.shape[axis]
    if node.opset < 13 and node.has("split"):
        sizes = list(node.ints("split"))
    elif node.has_input(1):
        sizes = integers(node, 1)
    else:
        count = len(node.outputs)
        chunk = -(-size // count)
        sizes = [max(0, min(chunk, size - i * chunk)) for i in range(count)]
    if sum(sizes) != size or min(sizes) < 0:
        raise Unknown
    ends = np.cumsum(sizes)[:-1]
    return [content.with_array(part) for part in np.split(content.array, ends, axis=axis)]


@rule("Reshape")
def _reshape(node: Node) -> Content:
    content = known(node, 0)
    shape = list(node.ints("shape")) if node.opset < 5 else integers(node, 1)
    if not node.int("allowzero", 0):
        shape = [content.array.shape[i] if d == 0 and i < content.array.ndim else d for i, d in enumerate(shape)]
    if shape.count(-1) > 1 or any(d < -1 for d in shape):
        raise Unknown
    rest = math.prod(d for d in shape if d != -1)
    if (content.array.size % rest if rest else content.array.size) or (-1 not in shape and rest != content.array.size):
        raise Unknown
    return content.with_array(content.array.reshape(shape))


@rule("Flatten")
def _flatten(node: Node) -> Content:
    content = known(node, 0)
    axis = node.int("axis", 1)
    axis = axis + content.array.ndim if axis < 0 else axis
    return content.with_array(content.array.reshape(math.prod(content.array.shape[:axis]), -1))


@rule("Squeeze")
def _squeeze(node: Node) -> Content:
    content = known(node, 0)
    axes = axes_of(node, 1, 13)
    shape = content.array.shape
    axes = [i for i, d in enumerate(shape) if d == 1] if axes is None else list(node.axes(axes, len(shape)))
    if any(shape[a] != 1 for a in axes):
        raise Unknown
    return content.with_array(content.array.reshape([d for i, d in enumerate(shape) if i not in axes]))


@rule("Unsqueeze")
def _unsqueeze(node: Node) -> Content:
    content = known(node, 0)
    axes = axes_of(node, 1, 13)
    if axes is None:
        raise Unknown
    rank = content.array.ndim + len(axes)
    at = node.axes(axes, rank)
    rest = iter(content.array.shape)
    return content.with_array(content.array.reshape([1 if i in at else next(rest) for i in range(rank)]))


@rule("Transpose")
def _transpose(node: Node) -> Content:
    content = known(node, 0)
    permutation = node.ints("perm", tuple(reversed(range(content.array.ndim))))
    if sorted(permutation) != list(range(content.array.ndim)):
        raise Unknown
    return content.with_array(content.array.transpose(permutation))


@rule("Expand")
def _expand(node: Node) -> Content:
    content = known(node, 0)
    try:
        shape = np.broadcast_shapes(content.array.shape, _static(node.dims(1)))
    except ValueError:
        raise Unknown from None
    if math.prod(shape) > MAX_ELEMENTS:
        raise Unknown
    return content.with_array(np.broadcast_to(content.array, shape))


@rule("Tile")
def _tile(node: Node) -> Content:
    content, repeats = known(node, 0), integers(node, 1)
    if len(repeats) != content.array.ndim or content.array.size * math.prod(repeats) > MAX_ELEMENTS:
        raise Unknown
    return content.with_array(np.tile(content.array, repeats))
