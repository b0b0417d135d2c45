"""Scatter: writes updates at indices that are read from data."""

from __future__ import annotations

from burn.dialect.control import Group
from burn.dialect.indexing import ScatterElements
from burn.dialect.op import full_name
from burn.dialect.types import type_of
from burn.kernels.body import Apply, LoopKernel, Stage, Write
from burn.kernels.builders import parallel_scatter
from burn.kernels.builders.builder import Builder, Call, anchor_of, loop_index, loops
from burn.kernels.lower import linear
from burn.kernels.preferences import Preferences


def build(group: Group, preferences: Preferences) -> list[Call]:
    """Copies x, then applies the updates in order on one thread, because indices may repeat; or a conflict-free
    scatter."""
    if preferences.parallel_scatter and (calls := parallel_scatter.build(group, preferences)):
        return calls
    op = anchor_of(group, "scatter")
    x, indices, updates = type_of(op.x), type_of(op.indices), type_of(op.updates)
    builder = Builder(group)
    variables = loops(x.shape)
    copy = Write(builder.out(0), linear(loop_index(variables), x.shape), builder.low.at(op.x, loop_index(variables)))
    calls = [builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), (copy,)),), buffers))]
    builder = Builder(group)
    out = builder.out(0)
    steps = loops(updates.shape, "u")
    here = loop_index(steps)
    site = full_name(op)
    if isinstance(op, ScatterElements):
        axis = op.axis % x.rank
        fetched = builder.low.fetch(builder.low.at(op.indices, here), x.shape[axis], site)
        target = (*here[:axis], fetched, *here[axis + 1 :])
    else:
        head, depth = here[: indices.rank - 1], indices.shape[-1]
        assert isinstance(depth, int)
        fetched_axes = [
            builder.low.fetch(builder.low.at(op.indices, (*head, k)), x.shape[k], site) for k in range(depth)
        ]
        target = (*fetched_axes, *here[indices.rank - 1 :])
    offset = linear(target, x.shape)
    value = builder.low.at(op.updates, here)
    if op.reduction != "none":
        value = Apply(value.dtype, op.reduction, (builder.low.load(out, offset), value))
    stage = Stage(steps, (), (Write(out, offset, value),), "scatter")
    return [*calls, builder.call(lambda buffers: LoopKernel((), (stage,), buffers))]
