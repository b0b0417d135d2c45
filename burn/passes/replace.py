"""The loop of passes that replace single ops: `replace_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks

Kind = TypeVar("Kind", bound=Op)


def replace_ops(program: Program, kind: type[Kind], rule: Callable[[Kind], ir.Value | None]) -> int:
    """Replaces the one result of each op of a kind, nested blocks included, by the rule's value. The op stays where that is None.
    The rule builds its ops before the op. Returns how many ops were replaced."""
    count = 0
    with context():
        for block in blocks(program.block):
            for operation in list(block.operations):
                op = operation.opview
                if isinstance(op, kind) and (made := rule(op)) is not None:
                    op.operation.results[0].replace_all_uses_with(made)
                    op.operation.erase()
                    count += 1
    return count
