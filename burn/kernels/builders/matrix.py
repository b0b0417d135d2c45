"""Products and convolutions as a matrix kernel reads them: rows, columns in panels, and the depth they are summed over."""

from __future__ import annotations

from dataclasses import dataclass

from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, coefficient
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import Accumulator, ContractionKernel, Load, Scalar, Write
from burn.kernels.builders.builder import Builder, Call, contraction_type, convert, loops, place, untangle
from burn.kernels.lower import Place, linear

READ_AS = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), "float32"),
    "float64": "float64",
    **dict.fromkeys(("int32", "int16", "uint16", "int8", "uint8"), "int32"),
}
"""Element types of the operands of matrix kernels, and the type that each is multiplied and summed in."""


def matrix_type(op: Op) -> str | None:
    """The element type that a dot product or a convolution is summed in as a matrix kernel; None where there is none."""
    result = type_of(op.operation.results[0]).dtype
    lhs, rhs = (type_of(v).dtype for v in op.operation.operands)
    dtype = contraction_type(lhs, result)
    return dtype if READ_AS.get(lhs) == READ_AS.get(rhs) == dtype else None


@dataclass(frozen=True)
class Sides:
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


def matrix_kernel(group: Group, anchor: Op) -> list[Call] | None:
    """The contraction as a matrix kernel, where its operands can be read as one: of types in `READ_AS`, neighbouring columns
    side by side, index maps without division. None where not."""
    result = anchor.operation.results[0]
    dtype = matrix_type(anchor)
    if dtype is None:
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
    total = convert(Accumulator(dtype), type_of(result).dtype)
    builder.low.define(result, lambda index: total)
    space = type_of(result).shape
    writes = []
    for number, value in enumerate(group.yielded):
        source, index, shape = untangle(value, sides.place, space)
        writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(source, sides.place)))
    lhs, rhs = sides.lhs, sides.rhs
    return [
        builder.call(
            lambda buffers: ContractionKernel(
                dtype,
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


def _dot_sides(builder: Builder, op: Op) -> Sides | None:
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
    width = rhs.shape[-1] if op.columns is not None else 1
    assert isinstance(width, int)
    panel = column if op.columns is None else LoopVar("panel", ceildiv(column.extent, width))
    a: list[Dim] = [0] * lhs.rank
    for axis, v in zip((*op.lhs_batch, *op.lhs_contract, *free), (*batch, *depth, *rows), strict=True):
        a[axis] = 0 if v.extent == 1 else Expr.of(v)
    b: list[Dim] = [0] * rhs.rank
    for axis, v in zip((*op.rhs_batch, *op.rhs_contract), (*batch, *depth), strict=True):
        b[axis] = 0 if rhs.shape[axis] == 1 else Expr.of(v)
    other = [x for x in range(rhs.rank) if x not in (*op.rhs_batch, *op.rhs_contract)]
    if op.columns is not None:
        b[other[0]] = 0 if panel.extent == 1 else Expr.of(panel)
    else:
        for axis, v in zip(other, right, strict=True):
            b[axis] = Expr.of(v) if v is column or v.extent != 1 else 0
        first = builder.low.at(op.rhs, tuple(b))
        if not isinstance(first, Load) or coefficient(first.offset, column) != 1:
            return None
    return Sides(
        (*batch, *right[:-1]), rows, column, depth[:-1], depth[-1],
        builder.low.at(op.lhs, tuple(a)), builder.low.at(op.rhs, tuple(b)), (), panel, width, op.columns is not None,
        tuple(0 if v.extent == 1 and v is not column else Expr.of(v) for v in variables),
    )  # fmt: skip


def _conv_sides(builder: Builder, op: Op) -> Sides | None:
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
    return Sides(
        (group,) if groups > 1 else (), rows, column, window, channel, lhs, rhs, tuple(ranges), panel, width, True,
        (*place(rows), g * outputs + Expr.of(column)),
    )  # fmt: skip
