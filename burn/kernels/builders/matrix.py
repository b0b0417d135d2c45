"""Matmuls and convolutions as matrix kernels with rows, columns and a depth."""

from __future__ import annotations

from collections.abc import Collection

from burn.dialect.blocks import BlockDot
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import Dim, Expr, LoopVar, exact_div
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import Accumulator, Const, ContractionKernel, Where, Write
from burn.kernels.builders.blocks import block_operands
from burn.kernels.builders.builder import (
    Builder,
    Call,
    Computation,
    contraction_type,
    convert,
    loop_index,
    loops,
    untangle,
)
from burn.kernels.builders.operands import Operands, in_panels, packed_rhs, width_of
from burn.kernels.lower import linear

READ_AS = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), "float32"),
    "float64": "float64",
    **dict.fromkeys(("int32", "int16", "uint16", "int8", "uint8"), "int32"),
}
"""Operand element types of matrix kernels, each with the type to multiply and accumulate in."""


def matrix_type(op: Op, small: Collection[str] = ()) -> str | None:
    """The accumulator type of a dot product or a convolution as a matrix kernel; None if it has no such form. `small`:
    8-bit floats that matrix kernels also accept."""
    result = type_of(op.operation.results[0]).dtype
    lhs, rhs = (type_of(v).dtype for v in op.operation.operands)
    dtype = contraction_type(lhs, result)
    read_as = READ_AS | dict.fromkeys(small, "float32")
    return dtype if read_as.get(lhs) == read_as.get(rhs) == dtype else None


MIN_GROUP_CHANNELS = 4
"""Channels of a group from which a matmul pays; below that (depthwise), vectorise over the channels."""


def is_matmul(op: Op) -> bool:
    """True if a channels-last convolution should become a matmul."""
    channels = type_of(op.weight).shape[-2]
    return op.groups == 1 or (isinstance(channels, int) and channels >= MIN_GROUP_CHANNELS)


def matrix_kernel(group: Computation, anchor: Op, small: Collection[str] = ()) -> Call | None:
    """The contraction as rows and columns; None if it lacks either, or its types are not in `READ_AS` or `small`."""
    result = anchor.operation.results[0]
    dtype = "float32" if isinstance(anchor, BlockDot) else matrix_type(anchor, small)
    if dtype is None:
        return None
    builder = Builder(group)
    operands = OPERANDS[anchor.OP_NAME](builder, anchor, dtype)
    if operands is None:
        return None
    total = convert(Accumulator(dtype), type_of(result).dtype)
    builder.low.define(result, lambda index: total)
    space = type_of(result).shape
    writes = []
    for number, value in enumerate(group.yielded):
        source, index, shape = untangle(value, operands.index, space)
        writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(source, operands.index)))
    return builder.call(
        lambda buffers: ContractionKernel(
            dtype,
            operands.batch,
            operands.rows,
            operands.column,
            operands.depth,
            operands.lhs,
            operands.rhs,
            tuple(writes),
            buffers,
            isinstance(anchor, DotGeneral) and anchor.sums == "fast",
        )
    )


def _dot_operands(builder: Builder, op: Op, dtype: str) -> Operands | None:
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    space = type_of(op.operation.results[0]).shape
    depth = tuple(LoopVar(f"k{i}", lhs.shape[a]) for i, a in enumerate(op.lhs_contract))
    within = depth[len(depth) :]
    if op.interleaved is not None:
        depth, within = _in_runs(depth, op.interleaved)
    variables = loops(space)
    n = len(op.lhs_batch)
    free = [a for a in range(lhs.rank) if a not in (*op.lhs_batch, *op.lhs_contract)]
    if len(space) == n + len(free) or not depth:  # without columns, a reduction over rows is the better kernel
        return None
    batch, rows, right = variables[:n], variables[n : n + len(free)], variables[n + len(free) :]
    a: list[Dim] = [0] * lhs.rank
    for axis, v in zip((*op.lhs_batch, *op.lhs_contract, *free), (*batch, *depth, *rows), strict=True):
        a[axis] = 0 if v.extent == 1 else Expr.of(v)
    if within:
        a[op.lhs_contract[-1]] = a[op.lhs_contract[-1]] * op.interleaved + Expr.of(within[0])
    b: list[Dim] = [0] * rhs.rank
    for axis, v in zip((*op.rhs_batch, *op.rhs_contract), (*batch, *depth), strict=True):
        b[axis] = 0 if rhs.shape[axis] == 1 else Expr.of(v)
    other = [x for x in range(rhs.rank) if x not in (*op.rhs_batch, *op.rhs_contract)]
    if op.columns is None:
        for axis, at in zip(other, (*loop_index(right[:-1]), Expr.of(right[-1])), strict=True):
            b[axis] = at
        width = 0
    else:
        last = -2 if within else -1
        width = width_of(rhs.shape[last])
        b[other[0]], b[last] = in_panels(Expr.of(right[-1]), width)
        if within:
            b[-1] = Expr.of(within[0])
    return Operands(
        (*batch, *right[:-1]), rows, right[-1], (*depth, *within), convert(builder.low.at(op.lhs, tuple(a)), dtype),
        convert(packed_rhs(builder, op.rhs, tuple(b), width), dtype), (*loop_index(variables[:-1]), Expr.of(right[-1])),
    )  # fmt: skip


def _conv_operands(builder: Builder, op: Op, dtype: str) -> Operands | None:
    x, weight, n = type_of(op.x), type_of(op.weight), len(op.strides)
    packed = op.columns is not None
    if op.layout != "last" or not (packed or is_matmul(op)):
        return None
    space = type_of(op.operation.results[0]).shape
    groups = op.groups
    outputs = op.columns // groups if packed else exact_div(weight.shape[-1], groups)
    if outputs is None:
        return None
    group = LoopVar("g", groups)
    rows = loops(space[:-1])
    column = LoopVar("o", outputs)
    window = tuple(LoopVar(f"w{i}", k) for i, k in enumerate(weight.shape[2 : 2 + n] if packed else weight.shape[:n]))
    interleaved = op.interleaved or 1
    last = -1 if op.interleaved is None else -2
    channels = weight.shape[last - 1] * interleaved
    depth, within = (*window, LoopVar("c", channels)), ()
    if op.interleaved is not None:
        depth, within = _in_runs(depth, interleaved)
    g, c = loop_index((group, depth[-1]))
    inside = c * interleaved + Expr.of(within[0]) if within else c
    o = Expr.of(column)
    source, ranges = [], []
    for i, (r, w) in enumerate(zip(loop_index(rows)[1:], loop_index(window), strict=True)):
        at = r * op.strides[i] + w * op.dilations[i] - op.low[i]
        source.append(at)
        if op.low[i] != 0 or op.high[i] != 0:
            ranges.append((at, x.shape[1 + i]))
    lhs = convert(builder.low.at(op.x, (loop_index(rows)[0], *source, g * channels + inside)), dtype)
    if ranges:
        lhs = Where(dtype, tuple(ranges), lhs, Const(dtype, op.fill or 0))
    if packed:
        width = width_of(weight.shape[last])
        panel, lane = in_panels(o, width)
        right = packed_rhs(builder, op.weight, (g, panel, *loop_index(window), c, lane, *loop_index(within)), width)
    else:
        right = builder.low.at(op.weight, (*loop_index(window), c, g * outputs + o))
    return Operands(
        (group,) if groups > 1 else (), rows, column, (*depth, *within), lhs, convert(right, dtype),
        (*loop_index(rows), g * outputs + o),
    )  # fmt: skip


def _in_runs(depth: tuple[LoopVar, ...], run: int) -> tuple[tuple[LoopVar, ...], tuple[LoopVar, ...]]:
    """Splits the last loop into runs of neighbours: (the outer loops, the loops over a run)."""
    runs = exact_div(depth[-1].extent, run)
    assert runs is not None
    return (*depth[:-1], LoopVar(depth[-1].name, runs)), (LoopVar("run", run),)


OPERANDS = {"dot_general": _dot_operands, "conv": _conv_operands, "block_dot": block_operands}
"""The operands of a matrix kernel, by the op that anchors the group."""
