"""Ops that say something to differentiation, or to what comes behind it, and compute nothing."""

from __future__ import annotations

from burn.dialect.adjoint.rules import rule
from burn.dialect.deferred import Value
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand
from burn.dialect.types import TensorType


class StopGradient(Op, name="stop_gradient"):
    """x, which is taken for constant where the program is differentiated. Shapes: x [...] -> [...]."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return x

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return x


class Barrier(Op, name="barrier"):
    """x, once `after` is known: what is computed of the result is computed again, and then, although the same was computed of x
    before. Goes when equal ops have been merged and kernels made (the pass `release`). Shapes: x [...], after [...] -> x's."""

    x: Operand
    after: Operand

    @classmethod
    def infer(cls, x: TensorType, after: TensorType) -> TensorType:
        return x


@rule("barrier")
def barrier(g: Value, y: Value, x: Value, after: Value) -> list[Value | None]:
    return [g, None]
