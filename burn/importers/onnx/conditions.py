"""Operands of control flow: conditions and trip counts as scalars, and the sizes that an op defines."""

from __future__ import annotations

from burn.dialect.compose import reshape
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node


def scalar_of(node: Node, value: ir.Value) -> ir.Value:
    """A tensor of one element as a scalar."""
    type_ = type_of(value)
    if any(isinstance(d, int) and d != 1 for d in type_.shape):
        node.fail(f"takes one element, not {type_}")
    return reshape(value, ())


def known_flag(node: Node, value: ir.Value | None) -> bool | None:
    """A condition that is known while importing; an absent one is true."""
    if value is None:
        return True
    content = node.importer.content(value)
    if content is None or content.array.size != 1:
        return None
    element = content.array.reshape(-1)[0]
    return bool(element) if isinstance(element, (bool, int)) else None


class Symbols:
    """The sizes that a control-flow op defines, noted as they are made."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.names: list[str] = []

    def new(self, hint: str) -> Dim:
        self.names.append(self.node.fresh(hint))
        return symbol(self.names[-1])
