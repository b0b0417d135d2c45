"""Cumulative reductions along an axis (cumsum, cumprod, ...)."""

from __future__ import annotations

from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr
from burn.dialect.types import type_of
from burn.kernels.body import REDUCERS, Apply, Const, LoopKernel, Stage, Where, Write, identity
from burn.kernels.builders.builder import Builder, Call, anchor_of, loop_index, loops
from burn.kernels.lower import Indices, linear
from burn.kernels.preferences import Preferences


def build(group: Group, preferences: Preferences) -> list[Call]:
    """A cumulative reduction: walks the axis in order and combines each element with the previous result."""
    op = anchor_of(group, "cumulative")
    type_ = type_of(op.x)
    axis = op.axis % type_.rank
    variables = loops(type_.shape)
    step, n = variables[axis], type_.shape[axis]
    builder = Builder(group)
    out = builder.out(0)

    def at(position: Dim) -> Indices:
        index = list(loop_index(variables))
        index[axis] = n - 1 - position if op.reverse else position
        return tuple(index)

    here = Expr.of(step)
    own = builder.low.at(op.x, at(here - 1 if op.exclusive else here))
    before = builder.low.load(out, linear(at(here - 1), type_.shape))
    combined = Apply(own.dtype, REDUCERS[op.kind], (before, own))
    start = Const(own.dtype, identity(op.kind, own.dtype)) if op.exclusive else own
    value = Where(own.dtype, ((here - 1, n),), combined, start)
    stage = Stage((step,), (), (Write(out, linear(at(here), type_.shape), value),), "sequential")
    parallel = tuple(v for i, v in enumerate(variables) if i != axis)
    return [builder.call(lambda buffers: LoopKernel(parallel, (stage,), buffers))]
