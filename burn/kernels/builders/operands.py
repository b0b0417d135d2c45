"""Operands of a contraction in kernels, and columns in panels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burn.dialect.dims import Dim, LoopVar, floordiv, mod
from burn.dialect.mlir import ir
from burn.kernels.body import Load, Scalar
from burn.kernels.builders.builder import Builder
from burn.kernels.lower import Indices


@dataclass(frozen=True)
class Operands:
    """The operands of a contraction at an index of its loops, and that index in the result."""

    batch: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    column: LoopVar
    depth: tuple[LoopVar, ...]
    lhs: Scalar
    rhs: Scalar
    index: Indices


def width_of(dim: Dim) -> int:
    assert isinstance(dim, int)
    return dim


def in_panels(column: Dim, width: int) -> tuple[Dim, Dim]:
    """The panel of a column, and the column's index in it."""
    return floordiv(column, width), mod(column, width)


def packed_rhs(builder: Builder, value: ir.Value, index: Indices, width: int) -> Scalar:
    """An element of the rhs. Marks its buffer as packed in panels if the pass `pack` packed it."""
    element = builder.low.at(value, index)
    if width and isinstance(element, Load):
        buffer = builder.low.buffers[element.buffer]
        builder.low.buffers[element.buffer] = replace(buffer, panels=width)
    return element
