"""Reductions of segments: every element combines its updates, whose order is a list in memory."""

from __future__ import annotations

from burn.dialect.control import Group
from burn.dialect.dims import Dim, LoopVar
from burn.dialect.types import type_of
from burn.kernels.body import (
    Apply,
    Const,
    Convert,
    Index,
    LoopKernel,
    Reduced,
    Reduction,
    Scalar,
    Stage,
    Where,
    Write,
    identity,
)
from burn.kernels.builders.builder import Builder, Call, accumulate_type, anchor_of, convert, loop_index, loops
from burn.kernels.lower import Indices, Lowering, linear
from burn.kernels.preferences import Preferences

KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}
"""The reductions that combine updates."""


def build(group: Group, preferences: Preferences) -> list[Call]:
    """One kernel, whose stage iterates over the updates of a row. A row of at most one update needs no stage."""
    op = anchor_of(group, "segments")
    builder = Builder(group)
    low = builder.low
    x, updates, order = (type_of(v) for v in (op.x, op.updates, op.order))
    variables, step = loops(x.shape), LoopVar("step", op.longest)
    row, *rest = here = loop_index(variables)
    dtype = accumulate_type(x.dtype)
    start, end = (_within(low, low.at(op.starts, (row + n,)), order.shape[0] + 1) for n in (0, 1))
    stages: list[Stage] = []

    def update(rank: Indices) -> Scalar:
        return low.at(op.updates, (_within(low, low.at(op.order, rank), updates.shape[0]), *rest))

    if op.reduction == "none" or op.longest == 1:
        new = update((start,))
    else:
        kind = KINDS[op.reduction]
        (further,) = loop_index((step,))
        none = Const(dtype, identity(kind, dtype))
        body = Where(dtype, ((further, end - start),), convert(update((start + further,)), dtype), none)
        stages.append(Stage((step,), (Reduction("total", kind, dtype, body),)))
        new = Reduced(dtype, "total")
    old = low.at(op.x, here)
    if op.reduction != "none":
        new = Apply(dtype, op.reduction, (convert(old, dtype), convert(new, dtype)))
    value = Where(
        old.dtype, ((end - start - 1, order.shape[0]),), convert(new, old.dtype), old
    )  # others keep their bits
    low.define(op.operation.results[0], lambda index: value)
    writes = [
        Write(builder.out(number), linear(here, x.shape), low.at(result, here))
        for number, result in enumerate(group.yielded)
    ]
    return [builder.call(lambda buffers: LoopKernel(variables, (*stages, Stage((), (), tuple(writes))), buffers))]


def _within(low: Lowering, number: Scalar, extent: Dim) -> Dim:
    """An entry of a list as an index. Lists that `order_scatters` makes are in range; others are made to be."""
    last = Convert("int32", Index("int64", extent - 1))
    return low.position(Apply("int32", "max", (Apply("int32", "min", (number, last)), Const("int32", 0))), extent)
