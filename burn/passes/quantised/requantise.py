"""Quantisation of values that contractions of bytes read or compute: a multiplication by the reciprocal scale."""

from __future__ import annotations

from collections.abc import Collection

from burn.dialect import ops
from burn.dialect.activation import Clip, Relu
from burn.dialect.compose import number, reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.quantize import Dequantize
from burn.dialect.query import is_named, op_of, splat
from burn.dialect.types import type_of
from burn.passes.constants import Constants
from burn.passes.quantised.operands import BYTES, as_scalar
from burn.passes.rescale import rescaled

LEAST = 2.0**-126
"""The smallest float32 whose reciprocal is guaranteed to be finite."""

FAR = 8
"""The most pointwise ops between a contraction, or bytes, and the quantisation of their result."""


def requantised(op: Op, constant: Constants, contractions: Collection[ir.Value]) -> ir.Value | None:
    """A quantisation as one of the value times the reciprocal scale, or the bytes that it would restore. None: it stays.

    contractions: the results of contractions of bytes."""
    kept = is_named(op.x, "dequantize")
    if kept is not None and _inverts(kept, op):
        return kept.x
    x = type_of(op.x)
    known = constant(op.scale)
    if type_of(op.scale).elements != 1 or not (
        _is_multiplied(op, contractions) or (known and _follows(op.x, constant, contractions))
    ):
        return None
    if op.dtype not in BYTES or op.precision is not None or x.dtype != type_of(op.scale).dtype or op.block:
        return None
    if splat(op.scale) == 1:
        return None
    scale = reshape(op.scale, ())
    if known and (splat(scale) or 0) > 0:
        made = rescaled(op.x, ops.div(number(1.0, x.dtype), scale), constant)
        if made is not None:
            return ops.quantize(made, number(1.0, x.dtype), as_scalar(op.zero), **op.attrs)
    if not known:  # its scale may be nearly zero
        least = number(LEAST, x.dtype)
        scale = ops.select(ops.lt(ops.abs(scale), least), least, scale)
    factor = ops.div(number(1.0, x.dtype), scale)
    return ops.quantize(ops.mul(op.x, factor), number(1.0, x.dtype), as_scalar(op.zero), **op.attrs)


def _is_multiplied(op: Op, contractions: Collection[ir.Value]) -> bool:
    """True if integer contractions read the quantised float32 value."""
    return type_of(op.x).dtype == "float32" and any(
        use.owner.results[0] in contractions
        for use in op.operation.results[0].uses
        if use.owner.name in ("burn.dot_general", "burn.conv")
    )


def _follows(value: ir.Value, constant: Constants, contractions: Collection[ir.Value]) -> bool:
    """True if a value is an integer contraction, or quantised bytes, or a few pointwise ops on such."""
    todo = [(value, 0)]
    while todo:
        value, far = todo.pop()
        if value in contractions:
            return True
        op = op_of(value)
        if op is not None and isinstance(op, Dequantize) and type_of(op.x).dtype in BYTES and not constant(value):
            return True
        if op is not None and far < FAR and isinstance(op, Pointwise | Relu | Clip):
            todo += [(v, far + 1) for v in op.operation.operands]
    return False


def _inverts(kept: Op, op: Op) -> bool:
    """True if a quantisation inverts the dequantisation before it."""
    if type_of(kept.x).dtype != op.dtype or op.precision is not None or op.block or kept.block:
        return False
    same_zero = (kept.zero is None) == (op.zero is None) and (
        kept.zero is None
        or kept.zero == op.zero
        or (splat(kept.zero) is not None and splat(kept.zero) == splat(op.zero))
    )
    known = splat(kept.scale)
    return same_zero and (
        (kept.scale == op.scale and kept.axis == op.axis) or (known is not None and known == splat(op.scale))
    )
