"""Reductions. Half precision is reduced in float32."""

from __future__ import annotations

from burn.codegen.stablehlo.builder import Builder, Value
from burn.codegen.stablehlo.elements import accumulator, highest, is_float, lowest
from burn.codegen.stablehlo.emitter import Site, emits
from burn.codegen.stablehlo.ops.casts import wrapped

OPS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def identity(kind: str, dtype: str) -> float | int | bool:
    """The result of a reduction over nothing."""
    return {"sum": 0, "prod": 1, "any": False, "all": True}.get(
        kind, highest(dtype) if kind == "min" else lowest(dtype)
    )


def _widened(b: Builder, x: Value) -> Value:
    return b.convert(x, accumulator(b.dtype_of(x)))


@emits("reduce")
def reduce(site: Site) -> Value:
    b, op, type_ = site.b, site.op, site.type(0)
    x = _widened(b, site.x(0))
    axes = sorted(axis % type_.rank for axis in op.axes)
    made = b.reduce(OPS[op.kind], x, identity(op.kind, type_.dtype), axes) if axes else x
    made = wrapped(b, b.convert(made, b.dtype_of(site.x(0))), type_.dtype)
    return b.reshape(made, site.shape())


@emits("arg_reduce")
def arg_reduce(site: Site) -> Value:
    """The least (or greatest) index of an element that equals the extreme, or is NaN."""
    b, op, type_ = site.b, site.op, site.type(0)
    axis, x = op.axis % type_.rank, site.x(0)
    if b.dtype_of(x) == "bool":
        x = b.convert(x, "uint8")
    dtype, shape = b.dtype_of(x), b.shape_of(x)
    extreme = b.reduce(OPS[op.kind], x, identity(op.kind, dtype), [axis])
    kept = [a for a in range(type_.rank) if a != axis]
    found = b.compare("EQ", x, b.broadcast_in_dim(extreme, shape, kept))
    if is_float(dtype):
        found = b.or_(found, b.is_nan(x))
    index = b.iota(shape, axis, "int64")
    missing = -1 if op.last else highest("int64")
    index = b.select(found, index, b.like(missing, index))
    return b.reshape(b.reduce("maximum" if op.last else "minimum", index, missing, [axis]), site.shape())


@emits("cumulative")
def cumulative(site: Site) -> Value:
    b, op, type_ = site.b, site.op, site.type(0)
    axis, x = op.axis % type_.rank, site.x(0)
    narrow = b.dtype_of(x)
    x, first = _widened(b, x), identity(op.kind, type_.dtype)
    shape = b.shape_of(x)
    if op.exclusive and shape[axis] != 0:
        low, high = [0] * type_.rank, [0] * type_.rank
        low[axis], high[axis] = (-1, 1) if op.reverse else (1, -1)
        x = b.pad(x, b.scalar(first, b.dtype_of(x)), low, high, [0] * type_.rank)
    made = b.cumulative(OPS[op.kind], x, first, axis, op.reverse)
    return wrapped(b, b.convert(made, narrow), type_.dtype)


@emits("window_reduce")
def window_reduce(site: Site) -> Value:
    b, op, type_ = site.b, site.op, site.type(0)
    x = site.x(0)
    pads = tuple(zip(site.sizes(op.low), site.sizes(op.high), strict=True))
    first = identity(op.kind, type_.dtype)
    wide = _widened(b, x)
    made = b.reduce_window(OPS[op.kind], wide, first, op.window, op.strides, op.dilations, pads)
    return wrapped(b, b.convert(made, b.dtype_of(x)), type_.dtype)
