"""From fused groups to kernels: `kernels(group)` describes the loops, index maps and bodies that compute a `burn.group`.

Each kind of group has one builder in `BUILDERS`. No back end is known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burn.codegen.body import (
    EXPENSIVE,
    Accumulator,
    Apply,
    Buffer,
    Const,
    ContractionKernel,
    Convert,
    Kernel,
    Load,
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
from burn.codegen.lower import Lowering, Place, broadcast_index, linear, reshape_index
from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, coefficient, exact_div, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op, source_name
from burn.dialect.reduction import ArgReduce, Reduce
from burn.dialect.types import type_of


@dataclass(frozen=True)
class Call:
    """A kernel and what its buffers are: an operand of the group ("in", i), a result ("out", i), or scratch (None)."""

    kernel: Kernel
    bindings: tuple[tuple[str, int] | None, ...]


ACCUMULATE = {"float16": "float32", "bfloat16": "float32"}
"""Types that accumulate in a wider one."""


def loops(shape: tuple[Dim, ...], prefix: str = "i") -> tuple[LoopVar, ...]:
    return tuple(LoopVar(f"{prefix}{axis}", d) for axis, d in enumerate(shape))


def place(loop_vars: tuple[LoopVar, ...]) -> Place:
    """The loops' variables as a place; a loop of one iteration stands at 0."""
    return tuple(0 if v.extent == 1 else Expr.of(v) for v in loop_vars)


class Builder:
    """One kernel in the making: a lowering over the group's region, and the buffers of its results."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.low = Lowering()
        self.arguments = list(group.operation.regions[0].blocks[0].arguments)
        self.outputs: dict[int, int] = {}  # buffer id -> result number

    def out(self, result: int) -> int:
        """The buffer of a result."""
        for buffer, number in self.outputs.items():
            if number == result:
                return buffer
        dtype = type_of(self.group.operation.results[result]).dtype
        buffer = self.low.new_buffer(Buffer(dtype, "write"))
        self.outputs[buffer] = result
        return buffer

    def scratch(self, dtype: str, elements: Dim) -> int:
        return self.low.new_buffer(Buffer(dtype, "scratch", elements))

    def call(self, make: Callable[[tuple[Buffer, ...]], Kernel]) -> Call:
        bindings: list[tuple[str, int] | None] = []
        for i, leaf in enumerate(self.low.leaves):
            if leaf is not None:
                bindings.append(("in", self.arguments.index(leaf)))
            else:
                bindings.append(("out", self.outputs[i]) if i in self.outputs else None)
        return Call(make(tuple(self.low.buffers)), tuple(bindings))


def kernels(group: Group) -> list[Call]:
    """The kernels of a group, in the order they run."""
    return BUILDERS[group.kind](group)


def _loop(group: Group) -> list[Call]:
    yielded = group.yielded
    root = yielded[0].owner.opview if len(yielded) == 1 and not isinstance(yielded[0].owner, ir.Block) else None
    if isinstance(root, Op) and root.OP_NAME == "concat" and len(root.xs) > 1:
        return _concat(group, root)
    space = type_of(yielded[0]).shape
    variables = loops(space)
    builder = Builder(group)
    writes = []
    for number, value in enumerate(yielded):
        shape = type_of(value).shape
        index = place(variables) if shape == space else reshape_index(place(variables), space, shape)
        scalar = builder.low.at(value, index)
        writes.append(Write(builder.out(number), linear(place(variables), space), scalar))
    return [builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), tuple(writes)),), buffers))]


def _concat(group: Group, root: Op) -> list[Call]:
    """Each part is copied (or computed) to its place by a loop of its own, free of tests."""
    calls: list[Call] = []
    out = type_of(root.operation.results[0]).shape
    axis = root.axis % len(out)
    offset: Dim = 0
    for x in root.xs:
        shape = type_of(x).shape
        if shape[axis] != 0:
            builder = Builder(group)
            variables = loops((*out[:axis], shape[axis], *out[axis + 1 :]))
            index = place(variables)
            scalar = builder.low.at(x, index)
            moved = (*index[:axis], index[axis] + offset, *index[axis + 1 :])
            write = Write(builder.out(0), linear(moved, out), scalar)
            calls.append(builder.call(lambda b, v=variables, w=write: LoopKernel(v, (Stage((), (), (w,)),), b)))
        offset = offset + shape[axis]
    return calls


def _anchor(group: Group, *names: str) -> Op:
    """The op that decides what kernel the group is."""
    return next(op for op in group.ops if op.OP_NAME in names)


def accumulate_type(dtype: str) -> str:
    return ACCUMULATE.get(dtype, dtype)


def _convert(scalar: Scalar, dtype: str) -> Scalar:
    return scalar if scalar.dtype == dtype else Convert(dtype, scalar)


def _reduce(group: Group) -> list[Call]:
    """Stages over one space: each reduction runs over the reduced axes at every place of the kept ones; results of earlier
    stages are at hand in later ones. A costly value that two stages need is kept in scratch memory."""
    anchors = [op for op in group.ops if isinstance(op, (Reduce, ArgReduce))]
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
        """Writes a full-space value to scratch in the stage being built, and reads it from there in later stages."""
        row = tuple(v.extent for v in inner)
        buffer = builder.scratch(type_of(value).dtype, product(row))
        offset = linear(place(inner), row)
        scalar = low.at(value, full)
        stages[-1] = Stage(stages[-1].loops, stages[-1].reductions, (*stages[-1].writes, Write(buffer, offset, scalar)))
        low.define(value, lambda index: low.load(buffer, offset))

    costly = _costly_values(group, anchors, space) if (len(space) - 1) in axes else []
    for number, anchor in enumerate(anchors):
        result = anchor.operation.results[0]
        name = f"r{number}"
        body = low.at(anchor.x, full)
        if isinstance(anchor, Reduce):
            dtype = accumulate_type(body.dtype)
            reduction = Reduction(name, anchor.kind, dtype, _convert(body, dtype))
            out: Scalar = _convert(Reduced(dtype, name), body.dtype)
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
    return [builder.call(lambda buffers: LoopKernel(kept, tuple(stages), buffers))]


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


def _window(group: Group) -> list[Call]:
    """One window reduction; places outside the operand are the reduction's identity, what follows is applied to the result."""
    anchor = _anchor(group, "window_reduce")
    x, result = type_of(anchor.x), anchor.operation.results[0]
    space = type_of(result).shape
    variables = loops(space)
    inner_all = tuple(LoopVar(f"w{i}", w) for i, w in enumerate(anchor.window))
    inner = tuple(v for v in inner_all if v.extent != 1)
    builder = Builder(group)
    ranges, source = [], []
    for i, (v, w) in enumerate(zip(place(variables), place(inner_all), strict=True)):
        at = v * anchor.strides[i] + w * anchor.dilations[i] - anchor.low[i]
        if not (anchor.low[i] == 0 and anchor.high[i] == 0):
            ranges.append((at, x.shape[i]))
        source.append(at)
    body = builder.low.at(anchor.x, tuple(source))
    dtype = accumulate_type(body.dtype)
    body = _convert(body, dtype)
    if ranges:
        body = Where(dtype, tuple(ranges), body, Const(dtype, identity(anchor.kind, dtype)))
    reduction = Reduction("r0", anchor.kind, dtype, body)
    out = _convert(Reduced(dtype, "r0"), x.dtype)
    builder.low.define(result, lambda index: out)
    writes = []
    for number, value in enumerate(group.yielded):
        shape = type_of(value).shape
        index = broadcast_index(place(variables), shape, space)
        writes.append(Write(builder.out(number), linear(place(variables), space), builder.low.at(value, index)))
    stages = (Stage(inner, (reduction,)), Stage((), (), tuple(writes)))
    return [builder.call(lambda buffers: LoopKernel(variables, stages, buffers))]


def _contract(group: Group) -> list[Call]:
    """One dot_general or convolution, then what follows at the same places. Results leave in the order of trailing views."""
    anchor = _anchor(group, "dot_general", "conv")
    tiled = _tiled(group, anchor)
    if tiled is not None:
        return tiled
    builder = Builder(group)
    result = anchor.operation.results[0]
    space = type_of(result).shape
    variables = loops(space)
    body, inner = (_dot_body if anchor.OP_NAME == "dot_general" else _conv_body)(builder, anchor, place(variables))
    dtype = body.dtype
    out = _convert(Reduced(dtype, "r0"), type_of(result).dtype)
    builder.low.define(result, lambda index: out)
    writes = []
    for number, value in enumerate(group.yielded):
        source, index, shape = untangle(value, place(variables), space)
        writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(source, place(variables))))
    stages = (Stage(inner, (Reduction("r0", "sum", dtype, body),)), Stage((), (), tuple(writes)))
    return [builder.call(lambda buffers: LoopKernel(variables, stages, buffers))]


def untangle(value: ir.Value, index: Place, space: tuple[Dim, ...]) -> tuple[ir.Value, Place, tuple[Dim, ...]]:
    """For a yielded value that ends in views: the value before them, and where its element at `index` comes to lie."""
    chain: list[Op] = []
    op = value.owner.opview if not isinstance(value.owner, ir.Block) else None
    while isinstance(op, Op) and op.OP_NAME in ("reshape", "transpose"):
        chain.append(op)
        value = op.x
        op = value.owner.opview if not isinstance(value.owner, ir.Block) else None
    shape = space
    for view in reversed(chain):
        target = type_of(view.operation.results[0]).shape
        if view.OP_NAME == "transpose":
            index = tuple(index[p] for p in view.permutation)
        else:
            index = reshape_index(index, shape, target)
        shape = target
    return value, index, shape


@dataclass(frozen=True)
class _Sides:
    """Both sides of a contraction as a matrix kernel reads them."""

    batch: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    column: LoopVar
    outer: tuple[LoopVar, ...]
    inner: LoopVar
    lhs: Scalar
    rhs: Scalar
    valid: tuple[tuple[Dim, Dim], ...]
    panel: LoopVar
    width: int
    packed: bool
    place: Place  # of the result, in these loops' variables


TILED = ("float32", "float64")
UNPACKED_WIDTH = {"float32": 32, "float64": 16}
"""Columns of a panel where the right side is not packed."""


def _tiled(group: Group, anchor: Op) -> list[Call] | None:
    """The contraction as a matrix kernel, where its operands can be read as one: a float type, neighbouring columns side by
    side, index maps without division. None where not."""
    result = anchor.operation.results[0]
    operands = anchor.operation.operands
    if {type_of(v).dtype for v in (*operands, result)} - {type_of(result).dtype} or type_of(result).dtype not in TILED:
        return None
    builder = Builder(group)
    sides = (_dot_sides if anchor.OP_NAME == "dot_general" else _conv_sides)(builder, anchor)
    if sides is None or not isinstance(sides.lhs, Load) or not isinstance(sides.rhs, Load):
        return None
    every = (*sides.batch, *sides.rows, *sides.outer, sides.inner)
    if any(coefficient(sides.lhs.offset, v) is None for v in every):
        return None
    if any(coefficient(sides.rhs.offset, v) is None for v in (*sides.batch, sides.panel, *sides.outer, sides.inner)):
        return None
    builder.low.define(result, lambda index: Accumulator(type_of(result).dtype))
    space = type_of(result).shape
    writes = []
    for number, value in enumerate(group.yielded):
        source, index, shape = untangle(value, sides.place, space)
        writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(source, sides.place)))
    lhs, rhs = sides.lhs, sides.rhs
    return [
        builder.call(
            lambda buffers: ContractionKernel(
                sides.batch,
                sides.rows,
                sides.column,
                sides.panel,
                sides.width,
                sides.outer,
                sides.inner,
                lhs,
                rhs,
                sides.valid,
                sides.packed,
                tuple(writes),
                buffers,
            )
        )
    ]


def _dot_sides(builder: Builder, op: Op) -> _Sides | None:
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    space = type_of(op.operation.results[0]).shape
    depth = tuple(LoopVar(f"k{i}", lhs.shape[a]) for i, a in enumerate(op.lhs_contract))
    variables = loops(space)
    n = len(op.lhs_batch)
    free = [a for a in range(lhs.rank) if a not in (*op.lhs_batch, *op.lhs_contract)]
    if len(space) == n + len(free) or not depth:  # no columns: a sum over rows is the better kernel
        return None
    batch, rows, right = variables[:n], variables[n : n + len(free)], variables[n + len(free) :]
    column = right[-1]
    width = rhs.shape[-1] if op.columns is not None else UNPACKED_WIDTH[lhs.dtype]
    assert isinstance(width, int)
    panel = LoopVar("panel", ceildiv(column.extent, width))
    a: list[Dim] = [0] * lhs.rank
    for axis, v in zip((*op.lhs_batch, *op.lhs_contract, *free), (*batch, *depth, *rows), strict=True):
        a[axis] = 0 if v.extent == 1 else Expr.of(v)
    b: list[Dim] = [0] * rhs.rank
    for axis, v in zip((*op.rhs_batch, *op.rhs_contract), (*batch, *depth), strict=True):
        b[axis] = 0 if rhs.shape[axis] == 1 else Expr.of(v)
    other = [x for x in range(rhs.rank) if x not in (*op.rhs_batch, *op.rhs_contract)]
    at_panel = 0 if panel.extent == 1 else Expr.of(panel)
    if op.columns is not None:
        b[other[0]] = at_panel
    else:
        for axis, v in zip(other, right, strict=True):
            b[axis] = at_panel * width if v is column else Expr.of(v) if v.extent != 1 else 0
        first = builder.low.at(op.rhs, tuple(b))
        moved = [d + 1 if axis == other[-1] else d for axis, d in enumerate(b)]
        second = builder.low.at(op.rhs, tuple(moved))
        if not (isinstance(first, Load) and isinstance(second, Load) and second.offset - first.offset == 1):
            return None
    return _Sides(
        (*batch, *right[:-1]), rows, column, depth[:-1], depth[-1],
        builder.low.at(op.lhs, tuple(a)), builder.low.at(op.rhs, tuple(b)), (), panel, width, op.columns is not None,
        tuple(0 if v.extent == 1 and v is not column else Expr.of(v) for v in variables),
    )  # fmt: skip


def _conv_sides(builder: Builder, op: Op) -> _Sides | None:
    if op.columns is None:
        return None
    x, weight, n = type_of(op.x), type_of(op.weight), len(op.strides)
    space = type_of(op.operation.results[0]).shape
    groups, width = op.groups, weight.shape[-1]
    assert isinstance(width, int)
    outputs = op.columns // groups
    group = LoopVar("g", groups)
    rows = loops(space[:-1])
    column = LoopVar("o", outputs)
    window = tuple(LoopVar(f"w{i}", k) for i, k in enumerate(weight.shape[2 : 2 + n]))
    channel = LoopVar("c", weight.shape[-2])
    panel = LoopVar("panel", weight.shape[1])
    g, c, q = (0 if v.extent == 1 else Expr.of(v) for v in (group, channel, panel))
    source, ranges = [], []
    for i, (o, w) in enumerate(zip(place(rows)[1:], place(window), strict=True)):
        at = o * op.strides[i] + w * op.dilations[i] - op.low[i]
        source.append(at)
        if op.low[i] != 0 or op.high[i] != 0:
            ranges.append((at, x.shape[1 + i]))
    lhs = builder.low.at(op.x, (place(rows)[0], *source, g * channel.extent + c))
    rhs = builder.low.at(op.weight, (g, q, *place(window), c, 0))
    return _Sides(
        (group,) if groups > 1 else (), rows, column, window, channel, lhs, rhs, tuple(ranges), panel, width, True,
        (*place(rows), g * outputs + Expr.of(column)),
    )  # fmt: skip


def contraction_type(*dtypes: str) -> str:
    """The element type that products are summed in: int32 for small integers, float32 for half floats."""
    dtype = dtypes[-1]
    small = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"}
    return small.get(dtype, accumulate_type(dtype))


def _dot_body(builder: Builder, op: Op, index: Place) -> tuple[Scalar, tuple[LoopVar, ...]]:
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    inner = tuple(LoopVar(f"k{i}", lhs.shape[a]) for i, a in enumerate(op.lhs_contract))
    batch = index[: len(op.lhs_batch)]
    free = [a for a in range(lhs.rank) if a not in (*op.lhs_batch, *op.lhs_contract)]
    left, right = index[len(batch) : len(batch) + len(free)], index[len(batch) + len(free) :]
    a: list[Dim] = [0] * lhs.rank
    b: list[Dim] = [0] * rhs.rank
    for axis, at in (*zip(op.lhs_batch, batch, strict=True), *zip(op.lhs_contract, place(inner), strict=True)):
        a[axis] = at
    for axis, at in (*zip(op.rhs_batch, batch, strict=True), *zip(op.rhs_contract, place(inner), strict=True)):
        b[axis] = at
    for axis, at in zip(free, left, strict=True):
        a[axis] = at
    other = [x for x in range(rhs.rank) if x not in (*op.rhs_batch, *op.rhs_contract)]
    for axis, at in zip(other, right, strict=True):
        b[axis] = at
    dtype = contraction_type(lhs.dtype, type_of(op.operation.results[0]).dtype)
    factors = (builder.low.at(op.lhs, tuple(a)), builder.low.at(op.rhs, tuple(b)))
    return Apply(dtype, "mul", tuple(_convert(f, dtype) for f in factors)), inner


def _conv_body(builder: Builder, op: Op, index: Place) -> tuple[Scalar, tuple[LoopVar, ...]]:
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
    c = group * channels + place((channel,))[0]
    source, ranges = [], []
    for i, (o, w) in enumerate(zip(spatial, place(window), strict=True)):
        at = o * op.strides[i] + w * op.dilations[i] - op.low[i]
        source.append(at)
        if op.low[i] != 0 or op.high[i] != 0:
            ranges.append((at, sizes[i]))
    xs = (index[0], *source, c) if last else (index[0], c, *source)
    inner_c = place((channel,))[0]
    ws = (*place(window), inner_c, out) if last else (out, inner_c, *place(window))
    dtype = contraction_type(x.dtype, type_of(op.operation.results[0]).dtype)
    left = _convert(builder.low.at(op.x, xs), dtype)
    if ranges:
        left = Where(dtype, tuple(ranges), left, Const(dtype, 0))
    right = _convert(builder.low.at(op.weight, ws), dtype)
    return Apply(dtype, "mul", (left, right)), tuple(v for v in (*window, channel) if v.extent != 1)


def exact_div_or(dim: Dim, divisor: int) -> Dim:
    quotient = exact_div(dim, divisor)
    return floordiv(dim, divisor) if quotient is None else quotient


def _cumulative(group: Group) -> list[Call]:
    """A running reduction: the axis is walked in order, each place combining the one before with its own element."""
    op = _anchor(group, "cumulative")
    type_ = type_of(op.x)
    axis = op.axis % type_.rank
    variables = loops(type_.shape)
    step, n = variables[axis], type_.shape[axis]
    builder = Builder(group)
    out = builder.out(0)

    def at(position: Dim) -> Place:
        index = list(place(variables))
        index[axis] = n - 1 - position if op.reverse else position
        return tuple(index)

    here = Expr.of(step)
    own = builder.low.at(op.x, at(here - 1 if op.exclusive else here))
    before = builder.low.load(out, linear(at(here - 1), type_.shape))
    combined = Apply(own.dtype, REDUCERS[op.kind], (before, own))
    start = Const(own.dtype, identity(op.kind, own.dtype)) if op.exclusive else own
    value = Where(own.dtype, ((here - 1, n),), combined, start)
    stage = Stage((step,), (), (Write(out, linear(at(here), type_.shape), value),))
    parallel = tuple(v for i, v in enumerate(variables) if i != axis)
    return [builder.call(lambda buffers: LoopKernel(parallel, (stage,), buffers))]


def _scatter(group: Group) -> list[Call]:
    """A copy of x, then the updates in order, by one thread: places may repeat."""
    op = _anchor(group, "scatter_elements", "scatter_nd")
    x, indices, updates = type_of(op.x), type_of(op.indices), type_of(op.updates)
    builder = Builder(group)
    variables = loops(x.shape)
    copy = Write(builder.out(0), linear(place(variables), x.shape), builder.low.at(op.x, place(variables)))
    calls = [builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), (copy,)),), buffers))]
    builder = Builder(group)
    out = builder.out(0)
    steps = loops(updates.shape, "u")
    here = place(steps)
    site = source_name(op)
    if op.OP_NAME == "scatter_elements":
        axis = op.axis % x.rank
        fetched = builder.low.fetch(builder.low.at(op.indices, here), x.shape[axis], site)
        target = (*here[:axis], fetched, *here[axis + 1 :])
    else:
        head, depth = here[: indices.rank - 1], indices.shape[-1]
        assert isinstance(depth, int)
        places = [builder.low.fetch(builder.low.at(op.indices, (*head, k)), x.shape[k], site) for k in range(depth)]
        target = (*places, *here[indices.rank - 1 :])
    offset = linear(target, x.shape)
    value = builder.low.at(op.updates, here)
    if op.reduction != "none":
        value = Apply(value.dtype, op.reduction, (builder.low.load(out, offset), value))
    stage = Stage(steps, (), (Write(out, offset, value),))
    return [*calls, builder.call(lambda buffers: LoopKernel((), (stage,), buffers))]


REDUCERS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
"""The pointwise function that combines two partial results of a reduction."""

BUILDERS: dict[str, Callable[[Group], list[Call]]] = {
    "loop": _loop,
    "reduce": _reduce,
    "window": _window,
    "contract": _contract,
    "cumulative": _cumulative,
    "scatter": _scatter,
}
