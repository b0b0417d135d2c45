"""Dequantisation moves past views and maxima, so that layers exchange bytes."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, splat
from burn.dialect.reduction import WindowReduce
from burn.dialect.types import type_of
from burn.passes.quantised.operands import BYTES, as_scalar

MOVED = ("reshape", "transpose", "slice", "broadcast_to")
"""Views that a dequantisation with one scale can move past."""


def moved(op: Op) -> ir.Value | None:
    """A view of dequantised bytes, or their window maximum, computed on the bytes instead."""
    kept = is_named(op.x, "dequantize")
    if kept is None or type_of(kept.x).dtype not in BYTES or type_of(kept.scale).elements != 1 or kept.block:
        return None
    if isinstance(op, WindowReduce) and not (op.kind == "max" and (splat(kept.scale) or 0) > 0):
        return None
    made = type(op).build(kept.x, *list(op.operation.operands)[1:], **op.attrs)
    return ops.dequantize(made, reshape(kept.scale, ()), as_scalar(kept.zero), **(kept.attrs | {"axis": 0}))
