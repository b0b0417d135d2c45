"""Removes barriers after CSE and kernel creation: the ops that they separated stay duplicated, as intended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Release:
    name: ClassVar[str] = "release"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            for block in blocks(program.block):
                for operation in list(block.operations):
                    if operation.operation.name == "burn.barrier":
                        operation.operation.results[0].replace_all_uses_with(operation.operation.operands[0])
                        operation.operation.erase()
