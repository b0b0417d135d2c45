"""Matmuls and convolutions as matrix kernels with rows, columns and a depth."""

from __future__ import annotations

from collections.abc import Callable, Collection

from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.dims import Dim, Expr, LoopVar, exact_div, floordiv, mod
from burn.dialect.op import Op
from burn.dialect.packed import PackedBlockDot, PackedDot
from burn.dialect.reduction import Reduce
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.body import Accumulator, Const, ContractionKernel, Scalar, Stage, Where, Write
from burn.kernels.builders.blocks import block_operands
from burn.kernels.builders.builder import (
    Builder,
    Call,
    Computation,
    contraction_type,
    convert,
    loop_index,
    loops,
    skip_views,
)
from burn.kernels.builders.operands import Operands, in_panels, packed_rhs, width_of
from burn.kernels.builders.rows import Rows
from burn.kernels.lower import linear
from burn.kernels.preferences import GroupedConvolution, Preferences

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


def is_matmul(op: Op, preferences: Preferences) -> bool:
    """True if a channels-last convolution should become a matmul, or one for each group."""
    channels, outputs = type_of(op.weight).shape[-2:]
    if op.groups == 1:
        return True
    if preferences.groups_in_lanes is None or not (isinstance(channels, int) and isinstance(outputs, int)):
        return isinstance(channels, int) and channels >= MIN_GROUP_CHANNELS
    dtype, sums = type_of(op.x).dtype, contraction_type(type_of(op.x).dtype, type_of(op.operation.results[0]).dtype)
    window = type_of(op.weight).shape[:-2]
    grouped = GroupedConvolution(op.groups, channels, outputs // op.groups, window, dtype, sums)
    return not preferences.groups_in_lanes(grouped)


def matrix_kernel(group: Computation, anchor: Op, preferences: Preferences) -> Call | None:
    """The contraction as rows and columns; None if it lacks either, its types are in neither `READ_AS` nor
    `Preferences.small_dtypes`, or its kernel computes several groups together."""
    small, merged = preferences.small_dtypes, preferences.merged_groups
    result = anchor.operation.results[0]
    dtype = "float32" if isinstance(anchor, PackedBlockDot) else matrix_type(anchor, small)
    if dtype is None:
        return None
    builder = Builder(group)
    stages = _row_stages(builder, anchor)
    if isinstance(anchor, Conv):
        operands = _conv_operands(builder, anchor, dtype, merged) if is_matmul(anchor, preferences) else None
    else:
        operands = OPERANDS[anchor.OP_NAME](builder, anchor, dtype)
    if operands is None:
        return None
    further = [op for op in group.ops if op.KERNEL == "contract" and op.operation != anchor.operation]
    for number, op in enumerate((anchor, *further)):
        value = op.operation.results[0]
        total = convert(Accumulator(dtype, number), type_of(value).dtype)
        builder.low.define(value, lambda index, total=total: total)
    others = tuple(block_operands(builder, op, dtype).rhs for op in further)
    space = type_of(result).shape
    writes = []
    for number, value in enumerate(group.yielded):
        source, index, shape = skip_views(value, operands.index, space)
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
            isinstance(anchor, (DotGeneral, PackedDot)) and anchor.sums == "fast",
            stages,
            others,
        )
    )


def _row_stages(builder: Builder, anchor: Op) -> tuple[Stage, ...]:
    """The reductions of a group before its matmul, over the depth of each row."""
    reductions = [op for op in builder.group.ops if isinstance(op, Reduce)]
    if not reductions:
        return ()
    shape = type_of(anchor.x).shape
    variables = (*loops(shape[:-1]), LoopVar("k", shape[-1]))
    return tuple(Rows(builder, shape, {len(shape) - 1}, reductions, False, variables).stages)


def _dot_operands(builder: Builder, op: Op, dtype: str) -> Operands | None:
    right = loops(type_of(op.operation.results[0]).shape)[type_of(op.lhs).rank - len(op.lhs_contract) :]
    if not right or not op.lhs_contract:  # without columns, a reduction over rows is the better kernel
        return None
    left = _DotLhs(builder, op, dtype)
    rhs = type_of(op.rhs)
    b: list[Dim] = [0] * rhs.rank
    for axis, v in zip((*op.rhs_batch, *op.rhs_contract), (*left.batch, *left.depth), strict=True):
        b[axis] = 0 if rhs.shape[axis] == 1 else Expr.of(v)
    other = [x for x in range(rhs.rank) if x not in (*op.rhs_batch, *op.rhs_contract)]
    for axis, at in zip(other, (*loop_index(right[:-1]), Expr.of(right[-1])), strict=True):
        b[axis] = at
    return left.operands(right, builder.low.at(op.rhs, tuple(b)))


def _packed_dot_operands(builder: Builder, op: Op, dtype: str) -> Operands:
    left, rhs = _DotLhs(builder, op, dtype, op.encoding.interleaved), type_of(op.rhs)
    column = loops(type_of(op.operation.results[0]).shape)[-1]
    width = width_of(rhs.shape[op.encoding.width_axis])
    panel, lane = in_panels(Expr.of(column), width)
    outer = [0 if size == 1 else Expr.of(v) for v, size in zip(left.batch, rhs.shape, strict=False)]
    depth = rhs.shape[len(left.batch) + 1 :]
    inner = [0 if size == 1 else Expr.of(v) for v, size in zip(left.depth, depth, strict=False)]
    index = (*outer, panel, *inner, lane, *loop_index(left.within))
    return left.operands((column,), packed_rhs(builder, op.rhs, index, width))


class _DotLhs:
    """The loops of a matmul and the element of its lhs. run: adjacent elements of the rhs' last depth axis; `within` loops over
    them if there are several."""

    def __init__(self, builder: Builder, op: Op, dtype: str, run: int = 1) -> None:
        lhs, n = type_of(op.lhs), len(op.lhs_batch)
        self.dtype = dtype
        self.depth = tuple(LoopVar(f"k{i}", lhs.shape[a]) for i, a in enumerate(op.lhs_contract))
        self.within: tuple[LoopVar, ...] = ()
        if run > 1:
            self.depth, self.within = _in_runs(self.depth, run)
        self.variables = loops(type_of(op.operation.results[0]).shape)
        free = [a for a in range(lhs.rank) if a not in (*op.lhs_batch, *op.lhs_contract)]
        self.batch, self.rows = self.variables[:n], self.variables[n : n + len(free)]
        a: list[Dim] = [0] * lhs.rank
        for axis, v in zip(
            (*op.lhs_batch, *op.lhs_contract, *free), (*self.batch, *self.depth, *self.rows), strict=True
        ):
            a[axis] = 0 if v.extent == 1 else Expr.of(v)
        if self.within:
            a[op.lhs_contract[-1]] = a[op.lhs_contract[-1]] * run + Expr.of(self.within[0])
        self.lhs = convert(builder.low.at(op.lhs, tuple(a)), dtype)

    def operands(self, right: tuple[LoopVar, ...], rhs: Scalar) -> Operands:
        """right: the loops over the rest of the rhs, the columns last."""
        index = (*loop_index(self.variables[:-1]), Expr.of(right[-1]))
        depth, batch = (*self.depth, *self.within), (*self.batch, *right[:-1])
        return Operands(batch, self.rows, right[-1], depth, self.lhs, convert(rhs, self.dtype), index)


def _conv_operands(builder: Builder, op: Op, dtype: str, merged: int = 0) -> Operands | None:
    weight = type_of(op.weight)
    inputs, outputs = weight.shape[-2], exact_div(weight.shape[-1], op.groups)
    if op.layout != "last" or outputs is None:
        return None
    together = _merged(op, inputs, merged)
    if together == 1:
        conv = _ConvLhs(builder, op, dtype, weight.shape[:-1], outputs)
        return conv.operands(builder.low.at(op.weight, (*loop_index(conv.window), conv.channel, conv.output)))
    depth = (*weight.shape[:-2], inputs * together)
    conv = _ConvLhs(builder, op, dtype, depth, outputs * together, groups=op.groups // together)
    channel, column = Expr.of(conv.depth[-1]), Expr.of(conv.column)
    element = builder.low.at(op.weight, (*loop_index(conv.window), mod(channel, inputs), conv.output))
    one_group = (floordiv(channel, inputs) - floordiv(column, outputs), 1)
    return conv.operands(Where(element.dtype, (one_group,), element, Const(element.dtype, 0)))


def _merged(op: Op, inputs: Dim, most: int) -> int:
    """The number of groups in one matmul: a divisor of all groups, with up to `most` channels."""
    if op.groups == 1 or not isinstance(inputs, int) or type_of(op.x).dtype not in HALF_DTYPES:
        return 1
    return max((n for n in range(1, op.groups + 1) if op.groups % n == 0 and n * inputs <= most), default=1)


def _packed_conv_operands(builder: Builder, op: Op, dtype: str) -> Operands:
    shape, encoding = type_of(op.weight).shape, op.encoding
    outputs = encoding.columns // op.groups
    conv = _ConvLhs(builder, op, dtype, encoding.depth(shape, 1), outputs, encoding.interleaved)
    width = width_of(shape[encoding.width_axis])
    panel, lane = in_panels(Expr.of(conv.column), width)
    index = (conv.at_group, panel, *loop_index(conv.window), conv.channel, lane, *loop_index(conv.within))
    return conv.operands(packed_rhs(builder, op.weight, index, width))


class _ConvLhs:
    """The loops of a channels-last convolution as a matmul, and the element of its input.

    depth: the sizes of the window, and the channels of a group. run: adjacent channels in the weight; `within` loops
    over them if there are several. groups: of the matmul, those of the op by default."""

    def __init__(
        self,
        builder: Builder,
        op: Op,
        dtype: str,
        depth: tuple[Dim, ...],
        outputs: Dim,
        run: int = 1,
        groups: int | None = None,
    ) -> None:
        x, self.dtype = type_of(op.x), dtype
        group, self.column = LoopVar("g", op.groups if groups is None else groups), LoopVar("o", outputs)
        self.batch = (group,) if group.extent != 1 else ()
        self.rows = loops(type_of(op.operation.results[0]).shape[:-1])
        self.window = tuple(LoopVar(f"w{i}", k) for i, k in enumerate(depth[:-1]))
        self.depth: tuple[LoopVar, ...] = (*self.window, LoopVar("c", depth[-1]))
        self.within: tuple[LoopVar, ...] = ()
        if run > 1:
            self.depth, self.within = _in_runs(self.depth, run)
        self.at_group, self.channel = loop_index((group, self.depth[-1]))
        inside = self.channel * run + Expr.of(self.within[0]) if self.within else self.channel
        self.output = self.at_group * outputs + Expr.of(self.column)
        source, ranges = [], []
        for i, (r, w) in enumerate(zip(loop_index(self.rows)[1:], loop_index(self.window), strict=True)):
            at = r * op.strides[i] + w * op.dilations[i] - op.low[i]
            source.append(at)
            if op.low[i] != 0 or op.high[i] != 0:
                ranges.append((at, x.shape[1 + i]))
        index = (loop_index(self.rows)[0], *source, self.at_group * depth[-1] + inside)
        self.lhs = convert(builder.low.at(op.x, index), dtype)
        if ranges:
            self.lhs = Where(dtype, tuple(ranges), self.lhs, Const(dtype, op.fill or 0))

    def operands(self, rhs: Scalar) -> Operands:
        depth, index = (*self.depth, *self.within), (*loop_index(self.rows), self.output)
        return Operands(self.batch, self.rows, self.column, depth, self.lhs, convert(rhs, self.dtype), index)


def _in_runs(depth: tuple[LoopVar, ...], run: int) -> tuple[tuple[LoopVar, ...], tuple[LoopVar, ...]]:
    """Splits the last loop into runs of neighbours: (the outer loops, the loops over a run)."""
    runs = exact_div(depth[-1].extent, run)
    assert runs is not None
    return (*depth[:-1], LoopVar(depth[-1].name, runs)), (LoopVar("run", run),)


OPERANDS: dict[str, Callable[[Builder, Op, str], Operands | None]] = {
    "dot_general": _dot_operands,
    "packed_dot": _packed_dot_operands,
    "packed_conv": _packed_conv_operands,
    "packed_block_dot": block_operands,
}
"""The operands of a matrix kernel, by the op that anchors the group."""
