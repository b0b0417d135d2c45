"""Reductions over a sliding window: pooling."""

from __future__ import annotations

from burn.dialect.dims import LoopVar
from burn.dialect.types import type_of
from burn.kernels.body import Const, LoopKernel, Reduced, Reduction, Stage, Where, Write, identity
from burn.kernels.builders.builder import (
    Builder,
    Call,
    Computation,
    accumulate_type,
    anchor_of,
    convert,
    loop_index,
    loops,
)
from burn.kernels.lower import broadcast_index, linear
from burn.kernels.preferences import Preferences


def build(group: Computation, preferences: Preferences) -> list[Call]:
    """One window reduction with its epilogue. Elements outside the operand are the reduction's identity."""
    anchor = anchor_of(group, "window")
    x, result = type_of(anchor.x), anchor.operation.results[0]
    space = type_of(result).shape
    variables = loops(space)
    inner_all = tuple(LoopVar(f"w{i}", w) for i, w in enumerate(anchor.window))
    inner = tuple(v for v in inner_all if v.extent != 1)
    builder = Builder(group)
    ranges, source = [], []
    for i, (v, w) in enumerate(zip(loop_index(variables), loop_index(inner_all), strict=True)):
        at = v * anchor.strides[i] + w * anchor.dilations[i] - anchor.low[i]
        if not (anchor.low[i] == 0 and anchor.high[i] == 0):
            ranges.append((at, x.shape[i]))
        source.append(at)
    body = builder.low.at(anchor.x, tuple(source))
    dtype = accumulate_type(body.dtype)
    body = convert(body, dtype)
    if ranges:
        body = Where(dtype, tuple(ranges), body, Const(dtype, identity(anchor.kind, dtype)))
    reduction = Reduction("r0", anchor.kind, dtype, body)
    out = convert(Reduced(dtype, "r0"), x.dtype)
    builder.low.define(result, lambda index: out)
    writes = []
    for number, value in enumerate(group.yielded):
        shape = type_of(value).shape
        index = broadcast_index(loop_index(variables), shape, space)
        writes.append(Write(builder.out(number), linear(loop_index(variables), space), builder.low.at(value, index)))
    stages = (Stage(inner, (reduction,)), Stage((), (), tuple(writes)))
    return [builder.call(lambda buffers: LoopKernel(variables, stages, buffers))]
