"""Gathers at constant indices become slices; sizes read from known tensors become numbers."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.dims import Dim
from burn.dialect.indexing import Gather
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import integers, is_named, result_type, splat
from burn.dialect.types import type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full


@law("gather")
def gather_range(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x[i] = x[i : i + 1] without the axis, for a number i; the same for evenly spaced indices on one axis"""
    numbers = integers(op.indices)
    type_ = type_of(op.x)
    axis = op.axis % type_.rank
    size = type_.shape[axis]
    if not numbers or not isinstance(size, int) or any(not -size <= p < size for p in numbers):
        return None
    numbers = [p % size for p in numbers]
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if step == 0 or numbers != [numbers[0] + i * step for i in range(len(numbers))]:
        return None
    starts = tuple(numbers[0] if i == axis else 0 for i in range(type_.rank))
    sizes = tuple(len(numbers) if i == axis else d for i, d in enumerate(type_.shape))
    steps = tuple(step if i == axis else 1 for i in range(type_.rank))
    part = ops.slice(op.x, starts=starts, sizes=sizes, steps=steps)
    shape = result_type(op).shape
    return part if type_of(part).shape == shape else ops.reshape(part, shape=shape)


@law("gather")
def gather_of_splat(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """Every element of a uniform tensor is the same, provided that the indices are known to be valid."""
    number = splat(op.x)
    numbers = integers(op.indices)
    size = type_of(op.x).shape[op.axis % type_of(op.x).rank]
    if number is None or numbers is None or not isinstance(size, int) or any(not -size <= p < size for p in numbers):
        return None
    return full(number, result_type(op))


@law("reshape")
def size_as_scalar(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """One size as a vector of one element, or as a scalar"""
    source = is_named(op.x, "dim_values")
    return ops.dim_values(dims=source.dims, scalar=not op.shape) if source is not None and len(op.shape) < 2 else None


@law("slice", "gather")
def element_of_sizes(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A slice of a vector of sizes is a vector of sizes."""
    source = is_named(op.x, "dim_values")
    if source is None or source.scalar:
        return None
    if isinstance(op, Gather):
        numbers = integers(op.indices)
        if (
            numbers is None
            or type_of(op.indices).rank > 1
            or any(not -len(source.dims) <= p < len(source.dims) for p in numbers)
        ):
            return None
        return ops.dim_values(dims=tuple(source.dims[p] for p in numbers), scalar=type_of(op.indices).rank == 0)
    start, size, step = op.starts[0], op.sizes[0], op.steps[0]
    if not isinstance(start, int) or not isinstance(size, int):
        return None
    dims: tuple[Dim, ...] = tuple(source.dims[start + i * step] for i in range(size))
    return ops.dim_values(dims=dims)


@law("gather_elements")
def picked_before(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """gather_elements(f(a, b), i) = f(gather_elements(a, i), b), for one index per row and b of one element per row"""
    inner = is_named(op.x, "cast", "sub", "add", "mul", "div")
    if inner is None:
        return None
    space, numbers = type_of(op.x), type_of(op.indices)
    axis = op.axis % space.rank
    line = (*space.shape[:axis], 1, *space.shape[axis + 1 :])
    operands = list(inner.operation.operands)
    shapes = [type_of(v).shape for v in operands]
    if numbers.shape != line or space.shape not in shapes or any(s not in (space.shape, line, ()) for s in shapes):
        return None
    picked = [
        ops.gather_elements(v, op.indices, axis=axis) if s == space.shape else v
        for v, s in zip(operands, shapes, strict=True)
    ]
    return inner.build(*picked, **inner.attrs)
