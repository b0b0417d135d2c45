"""Reductions over whole axes, and what is computed along with them, row by row."""

from __future__ import annotations

from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.reduction import ArgReduce, Reduce
from burn.dialect.types import type_of
from burn.kernels.body import (
    EXPENSIVE,
    Const,
    LoopKernel,
    Reduced,
    Reduction,
    Scalar,
    Stage,
    Where,
    Write,
    identity,
    walk,
)
from burn.kernels.builders.builder import Builder, Call, accumulate_type, convert, loops, place
from burn.kernels.builders.spread import spread
from burn.kernels.lower import linear, reshape_index, rule_of
from burn.kernels.wants import Wants


def build(group: Group, wants: Wants) -> list[Call]:
    """Stages over one space: each reduction runs over the reduced axes at every place of the kept ones; results of earlier
    stages are at hand in later ones. A costly value that two stages need is kept in scratch memory."""
    anchors = [op for op in group.ops if isinstance(op, (Reduce, ArgReduce))]
    if wants.reduce_block and len(anchors) == 1 and _is_total(group, anchors[0], wants.reduce_block):
        return _in_blocks(group, anchors[0], wants.reduce_block)
    space = type_of(anchors[0].x).shape
    axes = {a % len(space) for a in reduced_axes(anchors[0])}
    variables = loops(space)
    kept = tuple(v for i, v in enumerate(variables) if i not in axes)
    inner = tuple(v for i, v in enumerate(variables) if i in axes)
    full = place(variables)
    builder = Builder(group)
    low = builder.low
    stages: list[Stage] = []
    kept_results: dict[str, int] = {}

    def keep(value: ir.Value) -> None:
        """Writes a full-space value to scratch in the stage being built, and reads it from there in later stages. Where another
        element is wanted than this iteration's, it is computed again."""
        row = tuple(v.extent for v in inner)
        buffer = builder.scratch(type_of(value).dtype, product(row))
        offset = linear(place(inner), row)
        scalar = low.at(value, full)
        stages[-1] = Stage(stages[-1].loops, stages[-1].reductions, (*stages[-1].writes, Write(buffer, offset, scalar)))
        op = op_of(value)
        assert op is not None
        low.define(value, lambda index: low.load(buffer, offset) if index == full else rule_of(op)(low, op, index))

    costly = _costly_values(group, anchors, space) if wants.keep_rows and (len(space) - 1) in axes else []
    for number, anchor in enumerate(anchors):
        result = anchor.operation.results[0]
        name = f"r{number}"
        body = low.at(anchor.x, full)
        if isinstance(anchor, Reduce):
            dtype = accumulate_type(body.dtype)
            reduction = Reduction(name, anchor.kind, dtype, convert(body, dtype))
            out: Scalar = convert(Reduced(dtype, name), body.dtype)
        else:
            (axis,) = inner
            reduction = Reduction(name, f"arg{anchor.kind}", body.dtype, body, place((axis,))[0], anchor.last)
            out = Reduced("int64", name)
        depends = {n.name for n in walk(reduction.body) if isinstance(n, Reduced)}
        if stages and not depends & {r.name for r in stages[-1].reductions} and not stages[-1].writes:
            stages[-1] = Stage(inner, (*stages[-1].reductions, reduction))
        else:
            stages.append(Stage(inner, (reduction,)))
        low.define(result, lambda index, out=out: out)
        for value in [v for v in costly if _uses(anchor.x, v)]:
            costly.remove(value)
            keep(value)
            low._memo.clear()
        kept_results[name] = number
    narrow: list[Write] = []
    wide: list[Write] = []
    kept_shape = tuple(v.extent for v in kept)
    for number, value in enumerate(group.yielded):
        shape = type_of(value).shape
        if shape == space and inner:
            wide.append(Write(builder.out(number), linear(full, space), low.at(value, full)))
            continue
        with_ones = tuple(1 if i in axes else d for i, d in enumerate(space))
        if shape == with_ones:
            index = tuple(0 if i in axes else p for i, p in enumerate(full))
        else:
            index = place(kept) if shape == kept_shape else reshape_index(place(kept), kept_shape, shape)
        narrow.append(Write(builder.out(number), linear(place(kept), kept_shape), low.at(value, index)))
    if wide:
        stages.append(Stage(inner, (), tuple(wide)))
    if narrow:
        stages.append(Stage((), (), tuple(narrow)))
    call = builder.call(lambda buffers: LoopKernel(kept, tuple(stages), buffers))
    leading = axes == set(range(len(axes)))
    return spread(call, wants, leading) if wants.reduce_block else [call]


def _is_total(group: Group, anchor: Op, block: int) -> bool:
    """Whether a reduction leaves one element of a tensor in memory that is longer than some blocks, or may be."""
    if not isinstance(anchor, Reduce) or op_of(anchor.x) is not None:
        return False
    total, results = type_of(anchor.x).elements, (anchor.operation.results[0], *group.yielded)
    return all(type_of(v).elements == 1 for v in results) and not (isinstance(total, int) and total < 4 * block)


def _in_blocks(group: Group, anchor: Op, length: int) -> list[Call]:
    """Blocks of elements reduced side by side, then what came out of them, in their order."""
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


def reduced_axes(op: Op) -> tuple[int, ...]:
    return (op.axis,) if isinstance(op, ArgReduce) else op.axes


def _uses(value: ir.Value, wanted: ir.Value) -> bool:
    """Whether `value` is computed from `wanted` within the region."""
    todo, seen = [value], set()
    while todo:
        v = todo.pop()
        if v == wanted:
            return True
        if v in seen or isinstance(v.owner, ir.Block):
            continue
        seen.add(v)
        todo += list(v.owner.operands)
    return False


def _costly_values(group: Group, anchors: list[Op], space: tuple[Dim, ...]) -> list[ir.Value]:
    """Full-space results of costly functions that more than one stage reads."""
    found = []
    for op in group.ops:
        value = op.operation.results[0]
        if getattr(op, "FUNCTION", "") not in EXPENSIVE or type_of(value).shape != space:
            continue
        readers = sum(_uses(a.x, value) for a in anchors)
        after = any(_uses(v, value) for v in group.yielded if type_of(v).shape == space)
        if readers + after > 1:
            found.append(value)
    return found
