"""Marker ops for differentiation and the passes after it; they compute nothing."""

from __future__ import annotations

from burn.dialect.adjoint.rules import rule
from burn.dialect.batching.rules import barrier, elementwise
from burn.dialect.deferred import Value
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand
from burn.dialect.types import TensorType


class StopGradient(Op, name="stop_gradient", batching=elementwise):
    """x, as a constant for differentiation. Shapes: x [...] -> [...]."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return x

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return x


class Barrier(Op, name="barrier", batching=barrier):
    """x, available only after `after`. It forces ops on the result to be recomputed then, although equal ops on x
    exist. The pass `release` removes it after CSE and kernel creation. Shapes: x [...], after [...] -> x's."""

    x: Operand
    after: Operand

    @classmethod
    def infer(cls, x: TensorType, after: TensorType) -> TensorType:
        return x


@rule("barrier")
def barrier(g: Value, y: Value, x: Value, after: Value) -> list[Value | None]:
    return [g, None]
