"""Groups without a reduction: one loop over the elements of the results."""

from __future__ import annotations

from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of
from burn.dialect.shape import Concat, Reshape, Transpose
from burn.dialect.types import type_of
from burn.kernels.body import LoopKernel, Stage, Write
from burn.kernels.builders.builder import Builder, Call, Computation, loop_index, loops
from burn.kernels.lower import Indices, joined, linear, reshape_index
from burn.kernels.preferences import Preferences

PARTS = 8
"""Operands of a concat that one kernel loads. A longer chain of conditions takes seconds to compile, and every number of them is
code of its own."""

VECTOR = 16
"""Bytes that a thread of a GPU loads at once."""


def build(group: Computation, preferences: Preferences) -> list[Call]:
    yielded = group.yielded
    root = op_of(yielded[0]) if len(yielded) == 1 else None
    if root is not None and isinstance(root, Concat) and len(root.xs) > 1 and not _is_fused(group, root, preferences):
        return _concat(group, root)
    wide = next((op for op in group.ops if isinstance(op, Concat) and len(op.xs) > PARTS), None)
    if wide is not None and (calls := _in_parts(group, wide)) is not None:
        return calls
    space = type_of(yielded[0]).shape
    variables = loops(space)
    builder = Builder(group)
    writes = []
    for number, value in enumerate(yielded):
        shape = type_of(value).shape
        index = loop_index(variables) if shape == space else reshape_index(loop_index(variables), space, shape)
        scalar = builder.low.at(value, index)
        writes.append(Write(builder.out(number), linear(loop_index(variables), space), scalar))
    return [builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), tuple(writes)),), buffers))]


def _in_parts(group: Computation, root: Op) -> list[Call] | None:
    """A kernel for each few operands of a concat, with its readers. None if a reader's element is not that of one element of the
    concat, as in a sum of a matrix and its transpose."""
    calls: list[Call] = []
    result = root.operation.results[0]
    space, dtype = type_of(result).shape, type_of(result).dtype
    axis = root.axis % len(space)
    offset: Dim = 0
    for first in range(0, len(root.xs), PARTS):
        xs = root.xs[first : first + PARTS]
        length: Dim = 0
        for x in xs:
            length = length + type_of(x).shape[axis]
        builder = Builder(group)
        variables = loops((*space[:axis], length, *space[axis + 1 :]))
        index = loop_index(variables)
        moved = (*index[:axis], index[axis] + offset, *index[axis + 1 :])
        reads = _readers(group, result, moved)
        if reads is None:
            return None
        element = joined(builder.low, xs, axis, index, dtype)
        builder.low.define(result, lambda _, element=element: element)
        writes = []
        for number, value in enumerate(group.yielded):
            shape = type_of(value).shape
            at = reads.get(value) or (moved if shape == space else reshape_index(moved, space, shape))
            writes.append(Write(builder.out(number), linear(at, shape), builder.low.at(value, at)))
        stages = (Stage((), (), tuple(writes)),)
        calls.append(builder.call(lambda buffers, v=variables, s=stages: LoopKernel(v, s, buffers)))
        offset = offset + length
    return calls


def _readers(group: Computation, result: ir.Value, index: Indices) -> dict[ir.Value, Indices] | None:
    """For each value that is computed from a result: the index of the element that reads the result at this index. None if some
    value has no such element, or several."""
    found = {result: index}
    for op in group.ops:
        read = [x for x in op.operation.operands if x in found]
        if not read:
            continue
        (shape,) = {type_of(x).shape for x in read} if len({type_of(x).shape for x in read}) == 1 else (None,)
        of = found[read[0]]
        if shape is None or any(found[x] != of for x in read) or len(op.operation.results) != 1:
            return None
        into = type_of(op.operation.results[0]).shape
        if isinstance(op, Pointwise) and into == shape:
            at = of
        elif isinstance(op, Reshape):
            at = reshape_index(of, shape, into)
        elif isinstance(op, Transpose):
            at = tuple(of[axis] for axis in op.permutation)
        else:
            return None
        found[op.operation.results[0]] = at
    return found


def _is_fused(group: Computation, root: Op, preferences: Preferences) -> bool:
    """True if a concat, the producers of its operands and its readers are one loop."""
    few = len(root.xs) <= preferences.concat_operands and any(isinstance(op, Pointwise) for op in group.ops)
    return few or loads_together(root, preferences)


def loads_together(root: Op, preferences: Preferences) -> bool:
    """True if one loop loads all operands of a concat, see `Preferences.concat_loads`."""
    if len(root.xs) > preferences.concat_loads:
        return False
    result = type_of(root.operation.results[0])
    axis = root.axis % result.rank
    runs = [product([type_of(x).shape[axis], *result.shape[axis + 1 :], result.element_bytes]) for x in root.xs]
    return all(isinstance(run, int) and run % VECTOR == 0 for run in runs)


def _concat(group: Computation, root: Op) -> list[Call]:
    """Copies (or computes) each operand of a concat with a loop of its own, without conditions."""
    calls: list[Call] = []
    out = type_of(root.operation.results[0]).shape
    axis = root.axis % len(out)
    offset: Dim = 0
    for x in root.xs:
        shape = type_of(x).shape
        if shape[axis] != 0:
            builder = Builder(group)
            variables = loops((*out[:axis], shape[axis], *out[axis + 1 :]))
            index = loop_index(variables)
            scalar = builder.low.at(x, index)
            moved = (*index[:axis], index[axis] + offset, *index[axis + 1 :])
            write = Write(builder.out(0), linear(moved, out), scalar)
            calls.append(builder.call(lambda b, v=variables, w=write: LoopKernel(v, (Stage((), (), (w,)),), b)))
        offset = offset + shape[axis]
    return calls
