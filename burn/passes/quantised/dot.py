"""Matmuls of bytes, accumulated in int32."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.passes.quantised.operands import Bytes, is_zero, zero_or_0


class IntegerDot:
    """A matmul without batch axes and with a constant rhs."""

    def __init__(self, op: Op, left: Bytes, right: Bytes) -> None:
        self.op = op
        x, w = type_of(op.lhs), type_of(op.rhs)
        free = [a for a in range(w.rank) if a not in op.rhs_contract]
        last = x.rank - 1
        plain = not op.rhs_batch and len(free) == 1 and op.lhs_contract[-1:] == (last,)
        alone = right.is_single or (plain and right.axis % w.rank == free[0])
        self.columns = w.shape[free[0]] if plain and alone and isinstance(w.shape[free[0]], int) else None
        self.depth = product([w.shape[a] for a in op.rhs_contract])

    def fits(self, x: Bytes, w: Bytes, run: int) -> bool:
        return isinstance(self.depth, int) and self.depth > 0

    def multiplied(self, x: Bytes, w: Bytes) -> ir.Value:
        """The matmul of bytes, accumulated in int32."""
        return ops.dot_general(x.value, w.value, **(self.op.attrs | {"dtype": "int32"}))

    def across(self, parameter: ir.Value) -> ir.Value:
        """A parameter of the rhs, broadcast along the result."""
        return reshape(parameter, ()) if type_of(parameter).elements == 1 else parameter

    def excess(self, x: Bytes, w: Bytes) -> ir.Value:
        """The correction for the zero points."""
        parts: list[ir.Value] = []
        if x.zero is not None:
            sums = ops.reduce(convert(w.value, "int32"), kind="sum", axes=self.op.rhs_contract)
            if not is_zero(w.zero):
                sums = ops.sub(sums, ops.mul(self.across(zero_or_0(w.zero)), number(int(str(self.depth)), "int32")))
            parts.append(ops.mul(reshape(x.zero, ()), sums))
        if not is_zero(w.zero):
            sums = ops.reduce(convert(x.value, "int32"), kind="sum", axes=self.op.lhs_contract)
            sums = ops.reshape(sums, shape=(*type_of(sums).shape, 1))
            parts.append(ops.mul(sums, self.across(zero_or_0(w.zero))))
        return parts[0] if len(parts) == 1 else ops.add(*parts)
