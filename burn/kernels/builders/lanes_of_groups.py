"""Weight gradients of convolutions with few channels in each group, as loops whose last one is over the outputs of all groups.

As a matmul for each group, such a gradient has a few rows (the elements of a kernel) and a few columns (the outputs of a group).
With all groups in the lanes of vectors, a vector of outputs is multiplied by the inputs under each element of the kernel.
"""

from __future__ import annotations

from burn.dialect.contraction import DotGeneral
from burn.dialect.convolution import Windows
from burn.dialect.dims import Dim, Expr, LoopVar, floordiv, mod, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Reshape
from burn.dialect.types import type_of
from burn.kernels.builders.builder import loop_index, loops
from burn.kernels.lower import Indices
from burn.kernels.preferences import GroupedConvolution, Preferences


def is_grouped_gradient(op: Op, preferences: Preferences) -> bool:
    """True if an op multiplies sliding windows, [groups, kernel.., inputs], with [groups, outputs], and the target's kernels of
    such a convolution compute several groups in the lanes of a vector."""
    if not isinstance(op, DotGeneral) or preferences.groups_in_lanes is None or len(op.lhs_batch) != 1:
        return False
    lhs, rhs, result = type_of(op.lhs), type_of(op.rhs), type_of(op.operation.results[0])
    free = [n for a, n in enumerate(rhs.shape) if a not in (*op.rhs_batch, *op.rhs_contract)]
    rows = result.shape[: result.rank - len(free)]
    if len(rows) < 3:
        return False
    groups, *window, inputs = rows
    outputs = product(free)
    if len(free) > 1 or lhs.dtype != rhs.dtype or lhs.dtype != result.dtype:
        return False
    if not (isinstance(groups, int) and isinstance(inputs, int) and isinstance(outputs, int) and groups > 1):
        return False
    convolution = GroupedConvolution(groups, inputs, outputs, tuple(window), lhs.dtype, result.dtype, gradient=True)
    return windows_of(op.lhs) is not None and preferences.groups_in_lanes(convolution)


def windows_of(value: ir.Value) -> Windows | None:
    """The sliding windows that a value is, in another shape; None if it is no such value."""
    op = op_of(value)
    while isinstance(op, Reshape):
        op = op_of(op.x)
    return op if isinstance(op, Windows) else None


def gradient_loops(op: Op) -> tuple[tuple[LoopVar, ...], Indices]:
    """The parallel loops, and the index of the result. The loop over all outputs is the last one, and that over a group's inputs
    the first. The one before the last then moves the windows along a row."""
    shape = type_of(op.operation.results[0]).shape
    columns = len(shape) - (type_of(op.lhs).rank - len(op.lhs_contract))
    rows = loops(shape)[1 : len(shape) - columns]
    outputs: Dim = shape[-1] if columns else 1
    lane = LoopVar("o", shape[0] * outputs)
    group, output = floordiv(Expr.of(lane), outputs), mod(Expr.of(lane), outputs)
    return (rows[-1], *rows[:-1], lane), (group, *loop_index(rows), *((output,) if columns else ()))
