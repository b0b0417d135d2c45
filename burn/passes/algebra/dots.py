"""Contractions in the form of weights' gradients: both operands are summed along their first axes.

The gradient of a 1x1 convolution's weight is a matmul whose result a transpose moves to the weight's layout. With the operands
exchanged it has that layout. If the convolution is depthwise, the matmul has no free axes: each channel sums over the pixels. A
matmul kernel would have a tile of one row and one column for each channel. As a reduction, neighbouring threads have neighbouring
channels.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, reshape, transpose
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, result_type, used_once
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law


@law("dot_general")
def dot_without_free_axes(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """dot(x, y) = sum(x * y), if all axes are batch axes, contracted or of size 1, and the last axis of both is of the batch.
    Narrow floats are multiplied and summed in float32, as by the contraction."""
    result = result_type(op)
    lhs, rhs = _Operand(op, "lhs"), _Operand(op, "rhs")
    if DTYPES[result.dtype].kind != "float" or type_of(op.lhs).dtype != result.dtype or op.sums is not None:
        return None
    if not (op.lhs_contract and lhs.is_only_paired and rhs.is_only_paired and lhs.ends_in_batch and rhs.ends_in_batch):
        return None
    sums = "float64" if result.dtype == "float64" else "float32"
    x, y = (convert(each.paired(), sums) for each in (lhs, rhs))
    order = [rhs.pairs.index(pair) for pair in lhs.pairs]
    axes = tuple(i for i, (kind, _) in enumerate(lhs.pairs) if kind == "contract")
    summed = ops.reduce(ops.mul(x, transpose(y, tuple(order))), axes=axes, kind="sum", keepdims=False)
    batch = [number for kind, number in lhs.pairs if kind == "batch"]
    ordered = transpose(summed, tuple(batch.index(number) for number in range(len(batch))))
    return reshape(convert(ordered, result.dtype), result.shape)


@law("transpose")
def transpose_of_dot(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """transpose(x . y) = reshape(y . x), if the transpose moves y's free axes before x's, up to axes of size 1"""
    dot = is_named(op.x, "dot_general")
    if dot is None or dot.lhs_batch or not used_once(op.x):
        return None
    summed = tuple(range(len(dot.lhs_contract)))
    if tuple(sorted(dot.lhs_contract)) != summed or tuple(sorted(dot.rhs_contract)) != summed:
        return None
    shape, free = type_of(op.x).shape, type_of(dot.lhs).rank - len(summed)
    wide = [axis for axis, size in enumerate(shape) if size != 1]
    swapped = [axis for axis in wide if axis >= free] + [axis for axis in wide if axis < free]
    if swapped == wide or [axis for axis in op.permutation if axis in wide] != swapped:
        return None
    axes = {"lhs_contract": dot.rhs_contract, "rhs_contract": dot.lhs_contract}
    return reshape(ops.dot_general(dot.rhs, dot.lhs, **(dot.attrs | axes)), result_type(op).shape)


class _Operand:
    """An operand of a contraction. pairs: its paired axes in order, as ("batch" or "contract", number of the pair)."""

    def __init__(self, op: Op, name: str) -> None:
        self.value: ir.Value = getattr(op, name)
        shape = type_of(self.value).shape
        of = {axis: (kind, i) for kind in ("batch", "contract") for i, axis in enumerate(getattr(op, f"{name}_{kind}"))}
        self.pairs = [of[axis] for axis in range(len(shape)) if axis in of]
        self.shape = tuple(shape[axis] for axis in range(len(shape)) if axis in of)
        self.is_only_paired = all(axis in of or size == 1 for axis, size in enumerate(shape))
        last = next(
            (pair for pair, size in zip(reversed(self.pairs), reversed(self.shape), strict=True) if size != 1), None
        )
        self.ends_in_batch = last is not None and last[0] == "batch"

    def paired(self) -> ir.Value:
        """The value without its free axes, which have size 1."""
        return reshape(self.value, self.shape)
