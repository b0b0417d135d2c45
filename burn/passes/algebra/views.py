"""Reshape, transpose, broadcast, slice and pad: pairs merge, and no-ops are removed."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import FUNCTIONS
from burn.dialect.query import is_named, op_of, result_type, same_number, splat, used_once
from burn.dialect.shape import Full
from burn.dialect.types import broadcast_shapes, type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full

POINTWISE = (*(f.name for f in FUNCTIONS if f.arity == 2), "select")


@law("reshape", "broadcast_to", "transpose", "slice")
def view_of_splat(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """Any view of a uniform tensor is a uniform tensor."""
    number = splat(op.x) if (source := op_of(op.x)) is not None and isinstance(source, Full) else None
    return full(number, result_type(op)) if number is not None else None


@law("reshape", "broadcast_to")
def same_shape(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """reshape(x, shape of x) = x"""
    return op.x if type_of(op.x).shape == op.shape else None


@law("reshape")
def reshape_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """reshape(reshape(x)) = reshape(x)"""
    inner = is_named(op.x, "reshape")
    return ops.reshape(inner.x, shape=op.shape) if inner is not None else None


@law("reshape")
def reshape_broadcast(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """reshape(broadcast(x)) = reshape(x), where the broadcast only adds axes of size 1."""
    inner = is_named(op.x, "broadcast_to")
    if inner is None or type_of(inner.x).elements != type_of(op.x).elements:
        return None
    return ops.reshape(inner.x, shape=op.shape)


@law("broadcast_to")
def broadcast_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """broadcast(broadcast(x)) = broadcast(x)"""
    inner = is_named(op.x, "broadcast_to")
    return ops.broadcast_to(inner.x, shape=op.shape) if inner is not None else None


@law("broadcast_to")
def broadcast_adds_ones(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A broadcast that only adds axes of size 1 is a reshape."""
    x = type_of(op.x).shape
    added = len(op.shape) - len(x)
    return ops.reshape(op.x, shape=op.shape) if (1,) * added + x == op.shape else None


@law("transpose")
def transpose_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """transpose(transpose(x)) = transpose(x)"""
    inner = is_named(op.x, "transpose")
    if inner is None:
        return None
    return ops.transpose(inner.x, permutation=tuple(inner.permutation[p] for p in op.permutation))


@law("transpose")
def transpose_of_ones(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A transpose that keeps the order of all axes except those of size 1 is a reshape, or nothing."""
    shape = type_of(op.x).shape
    kept = [p for p in op.permutation if shape[p] != 1]
    if kept != sorted(kept):
        return None
    result = result_type(op).shape
    return op.x if result == shape else ops.reshape(op.x, shape=result)


@law(*POINTWISE)
def implicit_broadcast(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """f(broadcast(x), y) = f(x, y), if y still gives the result its shape."""
    inners = [is_named(value, "broadcast_to") for value in op.operation.operands]
    if all(inner is None for inner in inners):
        return None
    args, shape = list(op.args), result_type(op).shape
    for i, inner in enumerate(inners):
        if inner is None:
            continue
        others = [type_of(a).shape for j, a in enumerate(args) if j != i]
        if broadcast_shapes(type_of(inner.x).shape, *others) == shape:
            return type(op).build(*args[:i], inner.x, *args[i + 1 :], **op.attrs)
    return None


@law("slice")
def whole_slice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x[:] = x"""
    whole = op.sizes == type_of(op.x).shape and not any(op.starts) and all(s == 1 for s in op.steps)
    return op.x if whole else None


@law("windows")
def windows_of_one(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """Windows of one element are a reshape of the elements that are read. The axes that a matmul sums over are then one loop."""
    if any(size != 1 for size in op.window):
        return None
    x, result = type_of(op.x), result_type(op)
    end = op.axis + len(op.window)
    read = result.shape[op.axis : end]
    sizes, steps = (*x.shape[: op.axis], *read, *x.shape[end:]), [1] * x.rank
    steps[op.axis : end] = op.strides
    found = ops.slice(op.x, starts=(0,) * x.rank, sizes=sizes, steps=tuple(steps))
    return ops.reshape(found, shape=result.shape)


@law("slice")
def slice_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """slice(slice(x)) = slice(x)"""
    inner = is_named(op.x, "slice")
    if inner is None:
        return None
    starts = tuple(a + b * s for a, b, s in zip(inner.starts, op.starts, inner.steps, strict=True))
    steps = tuple(s * t for s, t in zip(inner.steps, op.steps, strict=True))
    return ops.slice(inner.x, starts=starts, sizes=op.sizes, steps=steps)


@law("slice")
def slice_of_broadcast(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """slice(broadcast(x)) = broadcast(slice(x)): broadcast axes need not be sliced."""
    inner = is_named(op.x, "broadcast_to")
    if inner is None:
        return None
    x = type_of(inner.x).shape
    skip = len(op.sizes) - len(x)
    starts: list[Dim] = []
    sizes: list[Dim] = []
    steps: list[int] = []
    for axis, d in enumerate(x):
        repeated = d == 1
        if not repeated and d != type_of(op.x).shape[axis + skip]:
            return None  # a symbolic size that may be 1
        starts.append(0 if repeated else op.starts[axis + skip])
        sizes.append(1 if repeated else op.sizes[axis + skip])
        steps.append(1 if repeated else op.steps[axis + skip])
    part = ops.slice(inner.x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    return ops.broadcast_to(part, shape=op.sizes)


@law("pad")
def no_pad(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """Padding by nothing is nothing; padding a uniform tensor with its own number makes a larger one."""
    if not any((*op.low, *op.high, *op.interior)):
        return op.x
    number, value = splat(op.x), splat(op.value)
    same = number is not None and value is not None and same_number(number, value)
    return full(number, result_type(op)) if same and number is not None else None


@law("pad")
def pad_twice(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """pad(pad(x, v), v) = pad(x, v)"""
    inner = is_named(op.x, "pad")
    if inner is None or any((*op.interior, *inner.interior)) or not used_once(op.x):
        return None
    value, before = splat(op.value), splat(inner.value)
    if op.value != inner.value and (value is None or before is None or not same_number(value, before)):
        return None
    low = tuple(a + b for a, b in zip(op.low, inner.low, strict=True))
    high = tuple(a + b for a, b in zip(op.high, inner.high, strict=True))
    return ops.pad(inner.x, op.value, low=low, high=high)
