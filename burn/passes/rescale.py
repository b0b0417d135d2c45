"""Multiplies a value by a constant factor where constants absorb it: `rescaled`."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.activation import Clip, Relu
from burn.dialect.compose import reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.quantize import Dequantize
from burn.dialect.query import op_of, used_once
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.passes.constants import Constants

DEEPEST = 12
"""Ops between a value and a constant that absorbs its factor."""


def rescaled(value: ir.Value, factor: ir.Value, constant: Constants) -> ir.Value | None:
    """value * factor without a multiplication at run time: scales, biases and bounds absorb the factor, a positive scalar
    constant. None if an op between them does not commute with it, or has other users. Rounding differs from that of the
    multiplication by a few ulps of the largest term, so that a constant which is added and subtracted again keeps its value: it
    rounds. Ops are built at the insertion point."""
    return _Rescaling(factor, constant).made(value) if _absorbs(value, constant, 0) else None


def _absorbs(value: ir.Value, constant: Constants, depth: int) -> bool:
    if constant(value):
        return True
    op = op_of(value)
    if op is None or depth > DEEPEST or type_of(value).dtype != "float32":
        return False
    if isinstance(op, Dequantize):
        return constant(op.scale)
    if not used_once(value):
        return False
    operands = list(op.operation.operands)
    match op.OP_NAME:
        case "mul":
            return any(map(constant, operands)) or any(_absorbs(v, constant, depth + 1) for v in operands)
        case "add" | "sub" if _shifts(value, constant) and any(_shifts(v, constant) for v in operands):
            return False
        case "add" | "sub" | "max" | "min":
            return all(_absorbs(v, constant, depth + 1) for v in operands)
        case "relu" | "clip":
            return _absorbs(op.x, constant, depth + 1) and all(map(constant, operands[1:]))
    return op.has(Trait.VIEW) and len(operands) == 1 and _absorbs(op.x, constant, depth + 1)


def _shifts(value: ir.Value, constant: Constants) -> bool:
    """True for a sum with a constant, or a view of it."""
    while (op := op_of(value)) is not None and op.has(Trait.VIEW) and len(op.operation.operands) == 1:
        value = op.x
    return op is not None and op.OP_NAME in ("add", "sub") and any(map(constant, op.operation.operands))


class _Rescaling:
    def __init__(self, factor: ir.Value, constant: Constants) -> None:
        self.factor, self.constant = factor, constant

    def made(self, value: ir.Value) -> ir.Value:
        """The multiplied value, for one that `_absorbs` accepts."""
        op = op_of(value)
        if self.constant(value) or op is None:
            return ops.mul(value, self.factor)
        operands = list(op.operation.operands)
        match op:
            case Dequantize():
                return ops.dequantize(op.x, ops.mul(op.scale, self.factor), op.zero, **op.attrs)
            case Relu():
                return ops.relu(self.made(op.x))
            case Clip():
                low, high = (
                    None if bound is None else ops.mul(reshape(bound, ()), self.factor) for bound in (op.low, op.high)
                )
                return ops.clip(self.made(op.x), low, high, **op.attrs)
        match op.OP_NAME:
            case "mul":
                return ops.mul(*self._factors(op))
            case "add" | "sub" | "max" | "min":
                return type(op).build(*map(self.made, operands), **op.attrs)
        return type(op).build(self.made(op.x), **op.attrs)

    def _factors(self, op: Op) -> tuple[ir.Value, ir.Value]:
        """The operands of a rescaled multiplication."""
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if self.constant(other):
                return one, ops.mul(other, self.factor)
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if _absorbs(other, self.constant, 1):
                return one, self.made(other)
        raise AssertionError("no operand absorbs the factor")
