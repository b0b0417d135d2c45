"""Concatenation, and slices of concatenated tensors."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, result_type, same_number, splat, used_once
from burn.dialect.types import type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full


@law("concat")
def concat_of_one(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """concat(x) = x; empty operands are dropped."""
    axis = op.axis % result_type(op).rank
    parts = [x for x in op.xs if type_of(x).shape[axis] != 0]
    if len(parts) == 1:
        return parts[0]
    return ops.concat(parts, axis=axis) if 1 < len(parts) < len(op.xs) else None


@law("concat")
def concat_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """concat(concat(a, b), c) = concat(a, b, c) along one axis"""
    rank = result_type(op).rank
    parts: list[ir.Value] = []
    for x in op.xs:
        inner = is_named(x, "concat")
        joined = inner is not None and inner.axis % rank == op.axis % rank and used_once(x)
        parts += inner.xs if inner is not None and joined else [x]
    return ops.concat(parts, axis=op.axis) if len(parts) > len(op.xs) else None


@law("concat")
def concat_of_splats(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A concat of uniform tensors of one number is uniform."""
    numbers = [splat(x) for x in op.xs]
    first = numbers[0]
    if first is None or not all(n is not None and same_number(n, first) for n in numbers):
        return None
    return full(first, result_type(op))


@law("concat")
def concat_of_slices(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """concat(x[a:b], x[b:c]) = x[a:c]: neighbouring slices of one tensor."""
    axis = op.axis % result_type(op).rank
    parts = [is_named(x, "slice") for x in op.xs]
    first = parts[0]
    if first is None:
        return None
    end: Dim = first.starts[axis]
    for part in parts:
        if (
            part is None
            or part.x != first.x
            or part.starts[axis] != end
            or part.steps != first.steps
            or part.steps[axis] != 1
        ):
            return None
        others = [i for i in range(len(part.sizes)) if i != axis]
        if any(part.starts[i] != first.starts[i] or part.sizes[i] != first.sizes[i] for i in others):
            return None
        end = end + part.sizes[axis]
    if len(parts) == 1:
        return None
    return ops.slice(first.x, starts=first.starts, sizes=result_type(op).shape, steps=first.steps)


def _known_natural(dim: Dim) -> bool:
    """True if a difference of sizes is a natural number. Symbolic sizes may be 0, so nothing more is known of them."""
    return isinstance(dim, int) and dim >= 0


@law("slice")
def slice_of_concat(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A slice within one operand of a concat is a slice of that operand."""
    inner = is_named(op.x, "concat")
    if inner is None:
        return None
    axis = inner.axis % len(op.sizes)
    start, size, step = op.starts[axis], op.sizes[axis], op.steps[axis]
    if step < 1 or size == 0:
        return None
    last = start + (size - 1) * step
    offset: Dim = 0
    for part in inner.xs:
        width = type_of(part).shape[axis]
        whole = start == offset and size == width and step == 1
        if whole or (_known_natural(start - offset) and _known_natural(offset + width - 1 - last)):
            starts = (*op.starts[:axis], start - offset, *op.starts[axis + 1 :])
            return ops.slice(part, starts=starts, sizes=op.sizes, steps=op.steps)
        offset = offset + width
    return None
