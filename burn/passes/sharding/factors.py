"""Factors: the axes of an op's operands and results that can be divided together.

A factor of `c = dot_general(a, b)` is the rows of a, which are also the rows of c. Another is the depth of a and b, which no
result has: each device then has partial sums. This is the notation of einsum, as in Shardy's sharding rules
(openxla.org/shardy). `RULES` has a function for each op class. An op without a rule, and an axis without a factor, gets whole
operands, which is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.passes.sharding.grid import Axes, Grid

AxisFactors: TypeAlias = "list[int | None]"
"""The factor of each axis of a tensor; None for an axis that has to be whole."""

Build: TypeAlias = Callable[[Op, Sequence[ir.Value], Sequence[Axes], Grid], Any]
"""build(op, operands, results, grid): the op on one device's blocks. results: the results' shardings."""


@dataclass
class Factors:
    """operands, results: the factors of their axes. sizes: what the devices along a factor must divide. reduced: factors that
    results do not have, and the reduction over them. linear: the results of partial sums are partial sums ("one": of one
    operand, "first" or "last": of that one, "all": if all operands are partial). free: operands that may lie in any way."""

    operands: list[AxisFactors]
    results: list[AxisFactors]
    sizes: dict[int, int] = field(default_factory=dict)
    reduced: dict[int, str] = field(default_factory=dict)
    linear: str = ""
    free: frozenset[int] = frozenset()
    build: Build | None = None


class New:
    """Numbers factors."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def __call__(self, size: Any) -> int | None:
        """A factor for an axis; None if its size is no number, or 1."""
        if not isinstance(size, int) or size <= 1:
            return None
        self.sizes[len(self.sizes)] = size
        return len(self.sizes) - 1

    def of(self, shape: Sequence[Any]) -> AxisFactors:
        return [self(size) for size in shape]


Rule: TypeAlias = "Callable[[Op], Factors | None]"
RULES: dict[str, Rule] = {}


def factors_for(*names: str) -> Callable[[Rule], Rule]:
    """Registers the function of some op classes."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def operand_shapes(op: Op) -> list[tuple[Any, ...]]:
    return [type_of(value).shape for value in op.operation.operands]


def result_shape(op: Op, result: int = 0) -> tuple[Any, ...]:
    return type_of(op.operation.results[result]).shape


def undivided(shape: Sequence[Any]) -> AxisFactors:
    return [None] * len(shape)


def aligned(shape: Sequence[Any], out: Sequence[Any], result: AxisFactors) -> AxisFactors:
    """The factors of an operand that broadcasts."""
    start = len(out) - len(shape)
    return [result[start + i] if d != 1 else None for i, d in enumerate(shape)]
