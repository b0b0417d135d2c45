"""Constants, views, slices, pad, concat, and conditions on sizes."""

from __future__ import annotations

import operator

import numpy as np

from burn.codegen.stablehlo.builder import Value
from burn.codegen.stablehlo.elements import carrier
from burn.codegen.stablehlo.emitter import Disagreement, Site, emits
from burn.codegen.stablehlo.ops.casts import cast
from burn.dialect.constants import constant_array
from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import WeightStore
from burn.runtime.abi import Status

RELATIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


@emits("full")
def full(site: Site) -> Value:
    op, b = site.op, site.b
    kind = DTYPES[op.dtype].kind
    if kind == "small":
        one = cast(b, b.scalar(op.value, "float32"), "float32", op.dtype)
        return b.broadcast_in_dim(one, site.shape(), ())
    number = op.bits if op.bits is not None else op.value
    if kind == "uint":
        number = int(number) % (1 << DTYPES[op.dtype].bits)
    elif kind == "int":
        bits = DTYPES[op.dtype].bits
        number = (int(number) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return b.full(number, site.shape(), carrier(op.dtype))


@emits("view_as_real")
def view_as_real(site: Site) -> Value:
    b, shape = site.b, site.shape()
    parts = [b.reshape(part, (*shape[:-1], 1)) for part in b.parts(site.x(0))]
    return b.concat(parts, len(shape) - 1)


@emits("view_as_complex")
def view_as_complex(site: Site) -> Value:
    b, x, shape = site.b, site.x(0), site.shape()
    starts, ends = (0,) * len(shape), tuple(shape)
    re, im = (b.slice(x, (*starts, i), (*ends, i + 1), (1,) * (len(shape) + 1)) for i in (0, 1))
    return b.complex(b.reshape(re, shape), b.reshape(im, shape))


@emits("constant")
def constant(site: Site) -> Value:
    array = constant_array(site.op.operation.results[0], WeightStore())
    return site.b.dense(carried(array, site.op.dtype), carrier(site.op.dtype))


def carried(array: np.ndarray, dtype: str) -> np.ndarray:
    """The elements in the numpy type of the carrier."""
    to = numpy_dtype(carrier(dtype))
    return array.view(to) if DTYPES[dtype].kind == "small" else array.astype(to, copy=False)


@emits("weight")
def weight(site: Site) -> Value:
    return site.emission.weights(site.op)


@emits("iota")
def iota(site: Site) -> Value:
    op, b = site.op, site.b
    axis = op.axis % len(op.shape)
    if op.dtype == carrier(op.dtype) and op.dtype not in ("bool", "float16", "bfloat16"):
        return b.iota(site.shape(), axis, op.dtype)
    return cast(b, b.iota(site.shape(), axis, "int64"), "int64", op.dtype)


@emits("dim_values")
def dim_values(site: Site) -> Value:
    op, b = site.op, site.b
    values = [b.size_value(size) for size in site.sizes(op.dims)]
    if op.scalar:
        return values[0]
    if not values:
        return b.full(0, (0,), "int64")
    return b.concat([b.reshape(value, (1,)) for value in values], 0)


@emits("check_size")
def check_size(site: Site) -> None:
    op = site.op
    size, bound = site.b.size(op.size), site.b.size(op.bound)
    if isinstance(size, int) and isinstance(bound, int) and not RELATIONS[op.relation](size, bound):
        condition = f"{op.size} {op.relation} {op.bound}" + (f" ({op.says})" if op.says else "")
        raise Disagreement(Status.CHECK_FAILED, condition, size)


@emits("broadcast_to")
def broadcast_to(site: Site) -> Value:
    return site.b.spread(site.x(0), site.shape())


@emits("reshape")
def reshape(site: Site) -> Value:
    return site.b.reshape(site.x(0), site.shape())


@emits("stop_gradient")
def stop_gradient(site: Site) -> Value:
    return site.b.constant(site.x(0))


@emits("barrier")
def barrier(site: Site) -> Value:
    """The order of recomputation is XLA's own choice."""
    return site.x(0)


@emits("transpose")
def transpose(site: Site) -> Value:
    return site.b.transpose(site.x(0), site.op.permutation)


@emits("slice")
def slice_(site: Site) -> Value:
    b, op = site.b, site.op
    if any(size == 0 for size in site.shape()):  # starts may be anything
        return b.full(0, site.shape(), b.dtype_of(site.x(0)))
    starts, limits, strides, backwards = [], [], [], []
    rows = zip(site.sizes(op.starts), site.sizes(op.sizes), op.steps, strict=True)
    for axis, (start, size, step) in enumerate(rows):
        last = start + (size - 1) * step
        low, high = (start, last) if step > 0 else (last, start)
        starts.append(low)
        limits.append(high + 1)
        strides.append(abs(step))
        if step < 0:
            backwards.append(axis)
    x = b.slice(site.x(0), starts, limits, strides)
    return b.reverse(x, backwards) if backwards else x


@emits("pad")
def pad(site: Site) -> Value:
    op = site.op
    rank = site.type(0).rank
    low, high = site.sizes(op.low), site.sizes(op.high)
    return site.b.pad(site.x(0), site.x(1), low, high, op.interior or (0,) * rank)


@emits("concat")
def concat(site: Site) -> Value:
    count = len(site.op.operation.operands)
    return site.b.concat([site.x(i) for i in range(count)], site.op.axis % site.result().rank)
