"""Control flow, functions' ends, and the groups that fusion makes."""

from __future__ import annotations

from burn.dialect.op import Op, Operand, Region, Variadic
from burn.dialect.types import TensorType


class Yield(Op, name="yield", pure=False, terminator=True):
    """Ends a region: its operands are the region's results."""

    values: Variadic

    @classmethod
    def infer(cls, values: list[TensorType]) -> list[TensorType]:
        return []


class Return(Op, name="return", pure=False, terminator=True):
    """Ends the program: its operands are the outputs."""

    values: Variadic

    @classmethod
    def infer(cls, values: list[TensorType]) -> list[TensorType]:
        return []
