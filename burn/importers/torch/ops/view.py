"""Views and copies: operators that move elements without computing on them."""

from __future__ import annotations

from typing import Any

import torch

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, number, number_like, part, reshape, transpose
from burn.dialect.dims import Dim, dim_max, dim_min, floordiv, plain, product
from burn.dialect.mlir import ir
from burn.dialect.shape import slice_bounds
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten

OPEN_END = 2**63 - 1
"""torch's notation for "to the end"."""


@aten("detach.default", "detach_copy.default")
def detach(node: Node, x: ir.Value) -> ir.Value:
    """x, a constant for what differentiates the program."""
    return ops.stop_gradient(x)


@aten(
    *("alias.default", "alias_copy.default", "clone.default", "contiguous.default", "lift_fresh_copy.default"),
    *("lift_fresh.default", "lift.default", "positive.default", "view_as.default"),
    *(
        "resolve_conj.default",
        "resolve_neg.default",
        "to.device",
    ),
)
def identity(node: Node, x: ir.Value, *rest: Any, **keywords: Any) -> ir.Value:
    """Memory formats and copies mean nothing to a program of values."""
    return convert(x, node.dtype)


@aten("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default")
def to(node: Node, x: ir.Value, *rest: Any, **keywords: Any) -> ir.Value:
    return convert(x, node.dtype)


@aten("convert_element_type.default", namespace="prims")
def convert_element_type(node: Node, x: ir.Value, dtype: Any) -> ir.Value:
    return convert(x, node.dtype)


@aten("view.dtype", "view_copy.dtype")
def bit_view(node: Node, x: ir.Value, dtype: Any) -> ir.Value:
    return ops.bitcast(x, dtype=node.dtype)


# ---- shapes: torch says what comes out ----------------------------------------------------------------------------------
@aten(
    *("view.default", "_unsafe_view.default", "reshape.default", "_reshape_alias.default", "_reshape_copy.default"),
    *("_reshape_alias_copy.default", "flatten.using_ints", "unflatten.int", "unsqueeze.default", "squeeze.default"),
    *("squeeze.dim", "squeeze.dims", "view_copy.default"),
    *("unsqueeze_copy.default", "squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims"),
)
def shaped(node: Node, x: ir.Value, *rest: Any) -> ir.Value:
    return reshape(x, node.shape)


@aten("expand.default", "broadcast_to.default", "expand_as.default", "expand_copy.default")
def expand(node: Node, x: ir.Value, *rest: Any, **keywords: Any) -> ir.Value:
    return broadcast_to(x, node.shape)


@aten("permute.default", "permute_copy.default")
def permute(node: Node, x: ir.Value, dims: list[int]) -> ir.Value:
    return transpose(x, tuple(node.axis(d, x) for d in dims))


@aten("transpose.int", "transpose_copy.int", "swapaxes.default", "swapdims.default")
def swap(node: Node, x: ir.Value, a: int, b: int) -> ir.Value:
    order = list(range(type_of(x).rank))
    if order:
        a, b = node.axis(a, x), node.axis(b, x)
        order[a], order[b] = b, a
    return transpose(x, tuple(order))


@aten("t.default", "t_copy.default", "numpy_T.default", "mT.default")
def turn(node: Node, x: ir.Value) -> ir.Value:
    rank = type_of(x).rank
    if "mT" in node.op:
        return transpose(x, (*range(rank - 2), rank - 1, rank - 2))
    return transpose(x, tuple(reversed(range(rank))))


@aten("copy.default")
def copy(node: Node, x: ir.Value, source: ir.Value, non_blocking: bool = False) -> ir.Value:
    """x overwritten by source."""
    return broadcast_to(convert(source, type_of(x).dtype), type_of(x).shape)


@aten("as_strided.default", "as_strided_copy.default")
def as_strided(node: Node, x: ir.Value, size: list[Dim], stride: list[Dim], offset: Any = None) -> ir.Value:
    """Elements at strided offsets in torch's memory of x, which must be dense: x's elements in some order of its axes."""
    memory = transpose(x, memory_order(node))
    return ops.gather(reshape(memory, (type_of(x).elements,)), strided_indices(node, size, stride, offset), axis=0)


def memory_order(node: Node) -> tuple[int, ...]:
    """The axes of the first operand as they lie in torch's memory, the outermost first."""
    meta, sizes = node.argument_meta(0), node.importer.sizes
    steps = [sizes.dim(step) for step in meta.stride()]
    known = [step.node.hint if isinstance(step, torch.SymInt) else step for step in meta.stride()]
    order = tuple(sorted(range(len(steps)), key=lambda axis: -known[axis]))
    expected: Dim = 1
    for axis in reversed(order):
        length = sizes.dim(meta.shape[axis])
        if length == 1:
            continue
        if steps[axis] != expected:
            node.fail("a view by strides of a tensor that does not fill its memory")
        expected = expected * length
    return order


def strided_indices(node: Node, size: list[Dim], stride: list[Dim], offset: Any) -> ir.Value:
    """Where in the memory of the first operand the elements of a view by strides lie: [size..], int64."""
    begin = node.importer.sizes.dim(node.argument_meta(0).storage_offset())
    first = 0 if offset is None else plain(offset - begin)
    if isinstance(first, int) and first < 0:
        node.fail(
            f"the view begins {-first} elements before the tensor that it is of, in memory that the graph does not have"
        )
    total = node.scalar(first, "int64")
    for axis, step in enumerate(stride):
        steps = ops.mul(ops.iota(shape=(size[axis],), axis=0), node.scalar(step, "int64"))
        total = ops.add(total, reshape(steps, tuple(d if i == axis else 1 for i, d in enumerate(size))))
    return broadcast_to(ops.from_start(total), tuple(size))


# ---- parts --------------------------------------------------------------------------------------------------------------
@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(node: Node, x: ir.Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> ir.Value:
    axis = node.axis(dim, x)
    size = type_of(x).shape[axis]
    first, count = slice_bounds(size, start, None if end == OPEN_END else end, step)
    return part(x, axis, first, count, step)


@aten("narrow.default", "narrow_copy.default")
def narrow(node: Node, x: ir.Value, dim: int, start: Any, length: Any) -> ir.Value:
    axis = node.axis(dim, x)
    if isinstance(start, int) and start < 0:
        start = type_of(x).shape[axis] + start
    return part(x, axis, start, length)


@aten("select.int", "select_copy.int")
def select(node: Node, x: ir.Value, dim: int, index: Any) -> ir.Value:
    axis = node.axis(dim, x)
    shape = type_of(x).shape
    if isinstance(index, int) and index < 0:
        index = shape[axis] + index
    rest = (*shape[:axis], *shape[axis + 1 :])
    return reshape(part(x, axis, index, 1), rest)


@aten("split_with_sizes.default", "split_with_sizes_copy.default")
def split_with_sizes(node: Node, x: ir.Value, sizes: list[Dim], dim: int = 0) -> list[ir.Value]:
    axis, start, parts = node.axis(dim, x), 0, []
    for size in sizes:
        parts.append(part(x, axis, start, size))
        start = start + size
    return parts


@aten("split.Tensor", "split_copy.Tensor", "chunk.default")
def split(node: Node, x: ir.Value, size: Any, dim: int = 0) -> list[ir.Value]:
    """torch gives the number of parts and their sizes."""
    axis = node.axis(dim, x)
    return split_with_sizes(node, x, [node.result_type(i).shape[axis] for i in range(len(node.meta))], dim)


@aten("unbind.int", "unbind_copy.int")
def unbind(node: Node, x: ir.Value, dim: int = 0) -> list[ir.Value]:
    return [select(node, x, dim, i) for i in range(len(node.meta))]


@aten("cat.default", "concat.default")
def cat(node: Node, xs: list[ir.Value], dim: int = 0) -> ir.Value:
    """Operands promote to one type; a tensor of shape [0] joins with anything and adds nothing."""
    rank = len(node.shape)
    kept = [node.as_result(x) for x in xs if type_of(x).rank == rank and not (rank > 1 and type_of(x).shape == (0,))]
    if not kept:
        return node.as_result(xs[0])
    return kept[0] if len(kept) == 1 else ops.concat(kept, axis=node.axis(dim, rank))


@aten("stack.default")
def stack(node: Node, xs: list[ir.Value], dim: int = 0) -> ir.Value:
    axis = node.axis(dim, type_of(xs[0]).rank + 1)
    rows = [reshape(node.as_result(x), (*type_of(x).shape[:axis], 1, *type_of(x).shape[axis:])) for x in xs]
    return ops.concat(rows, axis=axis)


# ---- repetition, reversal -----------------------------------------------------------------------------------------------
@aten("repeat.default", "tile.default")
def repeat(node: Node, x: ir.Value, repeats: list[Dim]) -> ir.Value:
    shape = type_of(x).shape
    rank = max(len(repeats), len(shape))
    shape = (*[1] * (rank - len(shape)), *shape)
    repeats = [*[1] * (rank - len(repeats)), *repeats]
    if all(r == 1 for r in repeats):
        return reshape(x, shape)
    pairs = [(r, d) for r, d in zip(repeats, shape, strict=True)]
    spread = reshape(x, tuple(v for _, d in pairs for v in (1, d)))
    wide = broadcast_to(spread, tuple(v for pair in pairs for v in pair))
    return reshape(wide, tuple(r * d for r, d in pairs))


@aten("flip.default")
def flip(node: Node, x: ir.Value, dims: list[int]) -> ir.Value:
    shape = type_of(x).shape
    turned = node.axes(dims, x) if dims else ()
    starts = tuple(d - 1 if i in turned else 0 for i, d in enumerate(shape))
    if not turned or any(shape[i] == 0 for i in turned):
        return x
    return ops.slice(x, starts=starts, sizes=shape, steps=tuple(-1 if i in turned else 1 for i in range(len(shape))))


@aten("unfold.default", "unfold_copy.default")
def unfold(node: Node, x: ir.Value, dimension: int, size: int, step: int) -> ir.Value:
    """Windows along an axis, each on a new last axis."""
    axis = node.axis(dimension, x)
    shape = type_of(x).shape
    if not shape:
        return reshape(x, node.shape)
    count = floordiv(shape[axis] - size, step) + 1
    starts = ops.mul(ops.iota(shape=(count, 1), axis=0), number(step, "int64"))
    windows = ops.gather(x, ops.add(starts, ops.iota(shape=(1, size), axis=1)), axis=axis)
    rank = len(shape) + 1
    return transpose(windows, (*(i for i in range(rank) if i != axis + 1), axis + 1))


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(node: Node, x: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> ir.Value:
    a, b = node.axis(dim1, x), node.axis(dim2, x)
    rank = type_of(x).rank
    x = transpose(x, (*(i for i in range(rank) if i not in (a, b)), a, b))
    count = node.shape[-1]
    rows = ops.add(ops.iota(shape=(count,), axis=0), number(max(-offset, 0), "int64"))
    columns = ops.add(ops.iota(shape=(count,), axis=0), number(max(offset, 0), "int64"))
    *outer, height, width = type_of(x).shape
    flat = reshape(x, (*outer, height * width))

    return ops.gather(flat, ops.add(ops.mul(rows, dim_value(width)), columns), axis=rank - 2)


# ---- padding ------------------------------------------------------------------------------------------------------------
def pads(values: list[Dim], rank: int) -> tuple[list[Dim], list[Dim]]:
    """torch's pads, from the last axis backwards, as what comes before and after each axis."""
    low: list[Dim] = [0] * rank
    high: list[Dim] = [0] * rank
    for i in range(len(values) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = values[2 * i], values[2 * i + 1]
    return low, high


@aten("constant_pad_nd.default")
def constant_pad(node: Node, x: ir.Value, pad: list[Dim], value: Any = 0) -> ir.Value:
    """Negative pads crop."""
    rank = type_of(x).rank
    low, high = pads(pad, rank)
    for axis in range(rank):
        before, after = (-v if isinstance(v, int) and v < 0 else 0 for v in (low[axis], high[axis]))
        if before or after:
            x = part(x, axis, before, type_of(x).shape[axis] - before - after)
    low, high = ([0 if isinstance(v, int) and v < 0 else v for v in side] for side in (low, high))
    if not any((*low, *high)):
        return x
    return ops.pad(x, node.scalar(value), low=tuple(low), high=tuple(high))


@aten(*(f"{kind}_pad{n}d.default" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def mirror_pad(node: Node, x: ir.Value, pad: list[Dim]) -> ir.Value:
    """Gathers, along each padded axis, the element that each index copies."""
    rank = type_of(x).rank
    low, high = pads(pad, rank)
    for axis in range(rank):
        if low[axis] == 0 and high[axis] == 0:
            continue
        size = type_of(x).shape[axis]

        at = ops.sub(ops.iota(shape=(low[axis] + size + high[axis],), axis=0), dim_value(low[axis]))
        last = dim_value(size - 1)
        if "reflection" in node.op:
            at = ops.sub(last, ops.abs(ops.sub(last, ops.abs(at))))
        else:
            at = ops.min(ops.max(at, number(0, "int64")), last)
        x = ops.gather(x, at, axis=axis)
    return x


@aten("_pad_circular.default")
def circular_pad(node: Node, x: ir.Value, pad: list[Dim]) -> ir.Value:
    """Joins the elements from the other end of each padded axis, which has as many. Negative pads crop it before."""
    low, high = pads(pad, type_of(x).rank)
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        cut, size = dim_max(-1 * before, 0), type_of(x).shape[axis]
        x = part(x, axis, cut, size - cut - dim_max(-1 * after, 0))
        size, before, after = type_of(x).shape[axis], dim_max(before, 0), dim_max(after, 0)
        ends = (part(x, axis, size - before, before), x, part(x, axis, 0, after))
        parts = [end for end in ends if type_of(end).shape[axis] != 0]
        x = ops.concat(parts, axis=axis) if len(parts) > 1 else x
    return x


# ---- triangles ----------------------------------------------------------------------------------------------------------
@aten("tril.default", "triu.default")
def triangle(node: Node, x: ir.Value, diagonal: Any = 0) -> ir.Value:
    rows, columns = type_of(x).shape[-2:]
    distance = ops.sub(ops.iota(shape=(1, columns), axis=1), ops.iota(shape=(rows, 1), axis=0))
    bound = node.scalar(diagonal, "int64")
    keep = (ops.le if "tril" in node.op else ops.ge)(distance, bound)
    return ops.select(keep, x, number_like(0, x))


# ---- writing into a part ------------------------------------------------------------------------------------------------
def replaced(x: ir.Value, new: ir.Value, axis: int, start: Dim, size: Dim, step: int = 1) -> ir.Value:
    """x with `size` elements of an axis, `step` apart from `start`, replaced by `new`."""
    length = type_of(x).shape[axis]
    if length == 0:
        return x
    if step == 1:
        pieces = [part(x, axis, 0, start), new, part(x, axis, start + size, length - start - size)]
        pieces = [p for p in pieces if type_of(p).shape[axis] != 0]
        return ops.concat(pieces, axis=axis) if len(pieces) > 1 else pieces[0]

    at = ops.iota(shape=(length,), axis=0)
    offset = ops.sub(at, dim_value(start))
    index = ops.floordiv(offset, number(step, "int64"))
    inside = ops.and_(ops.ge(offset, number(0, "int64")), ops.lt(index, dim_value(size)))
    inside = ops.and_(inside, ops.eq(ops.mod(offset, number(step, "int64")), number(0, "int64")))
    if size == 0:
        return x
    bounded = ops.min(ops.max(index, number(0, "int64")), dim_value(size - 1))
    shape = tuple(length if i == axis else 1 for i in range(type_of(x).rank))
    return ops.select(reshape(inside, shape), ops.gather(new, bounded, axis=axis), x)


@aten("slice_scatter.default")
def slice_scatter(
    node: Node, x: ir.Value, src: ir.Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> ir.Value:
    axis = node.axis(dim, x)
    first, count = slice_bounds(type_of(x).shape[axis], start, None if end == OPEN_END else end, step)
    shape = tuple(count if i == axis else d for i, d in enumerate(type_of(x).shape))
    return replaced(x, broadcast_to(node.as_result(src), shape), axis, first, count, step)


@aten("select_scatter.default")
def select_scatter(node: Node, x: ir.Value, src: ir.Value, dim: int, index: Any) -> ir.Value:
    axis = node.axis(dim, x)
    shape = type_of(x).shape
    if isinstance(index, int) and index < 0:
        index = shape[axis] + index
    row = tuple(1 if i == axis else d for i, d in enumerate(shape))
    return replaced(x, reshape(node.as_result(src), row), axis, index, 1)


@aten("resize.default")
def resize(node: Node, x: ir.Value, size: Any, *, memory_format: Any = None) -> ir.Value:
    """The first elements in row-major order; zeros where torch leaves elements without a value."""
    if not node.argument_meta(0).is_contiguous() or memory_format not in (None, torch.contiguous_format):
        node.fail("the memory of a strided tensor has no row-major order", hint="call .contiguous() before")
    type_, wanted = type_of(x), product(node.shape)
    kept = dim_min(type_.elements, wanted)
    flat = part(reshape(x, (type_.elements,)), 0, 0, kept)
    padded = ops.pad(flat, number_like(0, flat), low=(0,), high=(wanted - kept,))
    return reshape(padded, node.shape)
