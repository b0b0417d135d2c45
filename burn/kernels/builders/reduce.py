"""Reductions over whole axes, fused row by row with the ops around them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim
from burn.dialect.op import Op
from burn.dialect.reduction import ArgReduce, Reduce
from burn.dialect.types import type_of
from burn.kernels.body import LoopKernel
from burn.kernels.builders.builder import Builder, Call
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
    space = type_of(anchors[0].x).shape
    across = [op for op in anchors if _across(op, anchors, space)]
    if across:
        return column_reductions(group, [op for op in anchors if op not in across], across, preferences)
    axes = {a % len(space) for a in reduced_axes(anchors[0])}
    rows = Rows(Builder(group), space, axes, anchors, preferences.keep_rows)
    rows.write(range(len(group.yielded)))
    call = rows.builder.call(lambda buffers: LoopKernel(rows.kept, tuple(rows.stages), buffers))
    leading = axes == set(range(len(axes))) or is_total(space, axes)
    return split_reduction(call, preferences, leading) if preferences.reduce_block else [call]


def is_total(space: Sequence[Dim], axes: Collection[int]) -> bool:
    """True if a reduction of these axes leaves one element of a tensor that has more than one axis. A single row is
    different: its later stages, such as a softmax's, read it again from the cache."""
    return all(d == 1 for i, d in enumerate(space) if i not in axes) and sum(d != 1 for d in space) > 1


def _across(op: Op, anchors: Sequence[Op], space: tuple[Dim, ...]) -> bool:
    """True if an op reduces leading axes while others reduce trailing ones."""
    axes = [{a % len(space) for a in reduced_axes(anchor)} for anchor in anchors]
    return len(space) - 1 not in axes[anchors.index(op)] and any(len(space) - 1 in mine for mine in axes)
