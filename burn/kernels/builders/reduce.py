"""Reductions over whole axes, fused row by row with the ops around them."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.reduction import ArgReduce, Reduce
from burn.dialect.types import type_of
from burn.kernels.body import Const, LoopKernel, Reduced, Reduction, Stage, Where, Write, identity
from burn.kernels.builders.builder import Builder, Call, accumulate_type, convert
from burn.kernels.builders.column_reductions import column_reductions
from burn.kernels.builders.rows import Rows, reduced_axes
from burn.kernels.builders.split_reduction import split_reduction
from burn.kernels.preferences import Preferences


def build(group: Group, preferences: Preferences) -> list[Call]:
    """Stages over one space. Each reduction runs over the reduced axes for every index of the kept ones, and later
    stages use its result. An expensive value that two stages need is kept in scratch memory.

    A group may also reduce the leading axes, if only ops on those results read them: column reductions of values
    computed row by row.
    """
    anchors = [op for op in group.ops if isinstance(op, (Reduce, ArgReduce))]
    if preferences.reduce_block and len(anchors) == 1 and _is_total(group, anchors[0], preferences.reduce_block):
        return _in_blocks(group, anchors[0], preferences.reduce_block)
    space = type_of(anchors[0].x).shape
    across = [op for op in anchors if _across(op, anchors, space)]
    if across:
        return column_reductions(group, [op for op in anchors if op not in across], across, preferences)
    axes = {a % len(space) for a in reduced_axes(anchors[0])}
    rows = Rows(Builder(group), space, axes, anchors, preferences.keep_rows)
    rows.write(range(len(group.yielded)))
    call = rows.builder.call(lambda buffers: LoopKernel(rows.kept, tuple(rows.stages), buffers))
    leading = axes == set(range(len(axes)))
    return split_reduction(call, preferences, leading) if preferences.reduce_block else [call]


def _across(op: Op, anchors: Sequence[Op], space: tuple[Dim, ...]) -> bool:
    """True if an op reduces leading axes while others reduce trailing ones."""
    axes = [{a % len(space) for a in reduced_axes(anchor)} for anchor in anchors]
    return len(space) - 1 not in axes[anchors.index(op)] and any(len(space) - 1 in mine for mine in axes)


def _is_total(group: Group, anchor: Op, block: int) -> bool:
    """True if a reduction to one element reads a tensor in memory that is, or may be, longer than a few blocks."""
    if not isinstance(anchor, Reduce) or op_of(anchor.x) is not None:
        return False
    total, results = type_of(anchor.x).elements, (anchor.operation.results[0], *group.yielded)
    return all(type_of(v).elements == 1 for v in results) and not (isinstance(total, int) and total < 4 * block)


def _in_blocks(group: Group, anchor: Op, length: int) -> list[Call]:
    """Reduces blocks of elements in parallel, then combines the partial results in order."""
    x = type_of(anchor.x)
    dtype = accumulate_type(x.dtype)
    block, within = LoopVar("block", ceildiv(x.elements, length)), LoopVar("i", length)
    here, part = Expr.of(block), Expr.of(block) * length + Expr.of(within)
    first = Builder(group)
    element = convert(first.low.load(first.low.buffer(anchor.x), part), dtype)
    element = Where(dtype, ((part, x.elements),), element, Const(dtype, identity(anchor.kind, dtype)))
    parts = Write(first.shared(0, dtype, block.extent, "write"), here, Reduced(dtype, "part"))
    stages = (Stage((within,), (Reduction("part", anchor.kind, dtype, element),)), Stage((), (), (parts,)))
    calls = [first.call(lambda buffers: LoopKernel((block,), stages, buffers))]
    second = Builder(group)
    load = second.low.load(second.shared(0, dtype, block.extent, "read"), here)
    total = convert(Reduced(dtype, "r0"), x.dtype)
    second.low.define(anchor.operation.results[0], lambda index: total)
    writes = [
        Write(second.out(number), 0, second.low.at(value, (0,) * type_of(value).rank))
        for number, value in enumerate(group.yielded)
    ]
    joined = (Stage((block,), (Reduction("r0", anchor.kind, dtype, load),)), Stage((), (), tuple(writes)))
    return [*calls, second.call(lambda buffers: LoopKernel((), joined, buffers))]
