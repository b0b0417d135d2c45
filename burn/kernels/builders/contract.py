"""Matmuls and convolutions: a matrix kernel if they have that form (`matrix.py`), otherwise a loop with a reduction."""

from __future__ import annotations

from burn.dialect.dims import Dim, LoopVar, exact_div, floordiv
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import Apply, Const, LoopKernel, Reduced, Reduction, Scalar, Stage, Where, Write
from burn.kernels.builders.builder import (
    Builder,
    Call,
    Computation,
    anchor_of,
    contraction_type,
    convert,
    loop_index,
    loops,
    skip_views,
)
from burn.kernels.builders.contiguous_depth import with_contiguous_depth
from burn.kernels.builders.lanes_of_groups import gradient_loops, is_grouped_gradient
from burn.kernels.builders.matrix import matrix_kernel
from burn.kernels.builders.split_k import split_k
from burn.kernels.lower import Indices, linear
from burn.kernels.preferences import Preferences


def build(group: Computation, preferences: Preferences) -> list[Call]:
    """One contraction, packed or not, with its epilogue. Trailing views determine the order in which it is
    stored."""
    anchor = anchor_of(group, "contract")
    in_lanes = is_grouped_gradient(anchor, preferences)
    tiled = None if in_lanes else matrix_kernel(group, anchor, preferences)
    if tiled is not None:
        return [
            made
            for call in with_contiguous_depth(tiled, preferences.small_dtypes)
            for made in split_k(call, preferences)
        ]
    builder = Builder(group)
    result = anchor.operation.results[0]
    space = type_of(result).shape
    variables, position = gradient_loops(anchor) if in_lanes else (loops(space), loop_index(loops(space)))
    body, inner = BODIES[anchor.OP_NAME](builder, anchor, position)
    dtype = body.dtype
    out = convert(Reduced(dtype, "r0"), type_of(result).dtype)
    builder.low.define(result, lambda index: out)
    writes = []
    for number, value in enumerate(group.yielded):
        source, index, shape = skip_views(value, position, space)
        writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(source, position)))
    stages = (Stage(inner, (Reduction("r0", "sum", dtype, body),)), Stage((), (), tuple(writes)))
    return [builder.call(lambda buffers: LoopKernel(variables, stages, buffers))]


def _dot_body(builder: Builder, op: Op, index: Indices) -> tuple[Scalar, tuple[LoopVar, ...]]:
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    inner = tuple(LoopVar(f"k{i}", lhs.shape[a]) for i, a in enumerate(op.lhs_contract))
    batch = index[: len(op.lhs_batch)]
    free = [a for a in range(lhs.rank) if a not in (*op.lhs_batch, *op.lhs_contract)]
    left, right = index[len(batch) : len(batch) + len(free)], index[len(batch) + len(free) :]
    a: list[Dim] = [0] * lhs.rank
    b: list[Dim] = [0] * rhs.rank
    for axis, at in (*zip(op.lhs_batch, batch, strict=True), *zip(op.lhs_contract, loop_index(inner), strict=True)):
        a[axis] = at
    for axis, at in (*zip(op.rhs_batch, batch, strict=True), *zip(op.rhs_contract, loop_index(inner), strict=True)):
        b[axis] = at
    for axis, at in zip(free, left, strict=True):
        a[axis] = at
    other = [x for x in range(rhs.rank) if x not in (*op.rhs_batch, *op.rhs_contract)]
    for axis, at in zip(other, right, strict=True):
        b[axis] = at
    dtype = contraction_type(lhs.dtype, type_of(op.operation.results[0]).dtype)
    factors = (builder.low.at(op.lhs, tuple(a)), builder.low.at(op.rhs, tuple(b)))
    return Apply(dtype, "mul", tuple(convert(f, dtype) for f in factors)), inner


def _conv_body(builder: Builder, op: Op, index: Indices) -> tuple[Scalar, tuple[LoopVar, ...]]:
    x, weight, n = type_of(op.x), type_of(op.weight), len(op.strides)
    last = op.layout == "last"
    kernel = weight.shape[:n] if last else weight.shape[2:]
    channels = weight.shape[-2] if last else weight.shape[1]
    outputs = weight.shape[-1] if last else weight.shape[0]
    window = tuple(LoopVar(f"w{i}", k) for i, k in enumerate(kernel))
    channel = LoopVar("c", channels)
    out = index[-1] if last else index[1]
    spatial = index[1:-1] if last else index[2:]
    sizes = x.shape[1:-1] if last else x.shape[2:]
    group: Dim = out // exact_div_or(outputs, op.groups) if op.groups > 1 else 0
    c = group * channels + loop_index((channel,))[0]
    source, ranges = [], []
    for i, (o, w) in enumerate(zip(spatial, loop_index(window), strict=True)):
        at = o * op.strides[i] + w * op.dilations[i] - op.low[i]
        source.append(at)
        if op.low[i] != 0 or op.high[i] != 0:
            ranges.append((at, sizes[i]))
    xs = (index[0], *source, c) if last else (index[0], c, *source)
    inner_c = loop_index((channel,))[0]
    ws = (*loop_index(window), inner_c, out) if last else (out, inner_c, *loop_index(window))
    dtype = contraction_type(x.dtype, type_of(op.operation.results[0]).dtype)
    left = convert(builder.low.at(op.x, xs), dtype)
    if ranges:
        left = Where(dtype, tuple(ranges), left, Const(dtype, op.fill or 0))
    right = convert(builder.low.at(op.weight, ws), dtype)
    # Channels come before the window's last loop: neighbouring windows overlap along that, so vectors may share its elements.
    ordered = (*window[:-1], channel, *window[-1:])
    return Apply(dtype, "mul", (left, right)), tuple(v for v in ordered if v.extent != 1)


def exact_div_or(dim: Dim, divisor: int) -> Dim:
    quotient = exact_div(dim, divisor)
    return floordiv(dim, divisor) if quotient is None else quotient


BODIES = {"dot_general": _dot_body, "conv": _conv_body}
"""The body of a contraction as plain loops, by the op that anchors the group. Packed ops always have matrix kernels."""
