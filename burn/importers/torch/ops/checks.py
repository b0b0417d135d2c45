"""Assertions on elements and sizes: a false one ends the run with its message."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.fx.node import has_side_effect

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, reshape
from burn.dialect.mlir import ir
from burn.importers.torch.guards import LEAST, MOST, check
from burn.importers.torch.node import Node, aten
from burn.importers.torch.sizes import Unrepresentable, asked_of

has_side_effect(torch.ops.aten._assert_async.default)
"""torch keeps the assertion with a message, and would drop this one as a call without users."""
FALSE = "an assertion of the program does not hold"


@aten("_assert_async.default", "_assert_async.msg")
def assert_async(node: Node, flag: ir.Value, message: str = FALSE) -> None:
    """A tensor of one element that must not be 0."""
    _hold(node, flag, message)


@aten("_assert_scalar.default")
def assert_scalar(node: Node, condition: Any, message: str = FALSE) -> None:
    """A condition over sizes and elements that were read. Raises TypeMismatch where it is known not to hold."""
    meta = node.argument_meta(0)
    expression = asked_of(meta) if isinstance(meta, torch.SymBool) else sympy.sympify(bool(condition))
    if any(abs(n) >= MOST for n in expression.atoms(sympy.Integer)):
        return  # no limit
    sizes = node.importer.sizes
    if any(expression == sympy.Ge(size, LEAST) for size in sizes.general):
        return  # torch asserts its own assumption
    try:
        check(expression, sizes, message or FALSE)
    except Unrepresentable:  # no sizes alone
        _hold(node, sizes.condition(expression), message)


def _hold(node: Node, flag: ir.Value, message: str) -> None:
    size = node.new_size("holds")
    ops.read_dim(convert(convert(reshape(flag, ()), "bool"), "int64"), symbol=str(size), position=0, minimum=0)
    check_size(size, "==", 1, message or FALSE)
