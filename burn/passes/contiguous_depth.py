"""Transposes constant int8 weights of matmuls, so that their depth is contiguous: tensor cores read bytes in no other way.

Constant folding computes the transpose. It runs after the last simplification, which would fold it into the matmul.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.contraction import DotGeneral
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import type_of
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class ContiguousDepth:
    """See the module's docstring."""

    name: ClassVar[str] = "contiguous_depth"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            constant = Constants()
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Op) and isinstance(op, DotGeneral) and _is_strided(op, constant):
                        with operation.operation.location, ir.InsertionPoint(operation.operation):
                            transposed = ops.transpose(op.rhs, permutation=(1, 0))
                            made = ops.dot_general(op.lhs, transposed, **(op.attrs | {"rhs_contract": (1,)}))
                        op.operation.results[0].replace_all_uses_with(made)
                        operation.operation.erase()


def _is_strided(op: Op, constant: Constants) -> bool:
    """True for a matmul of bytes whose constant rhs [k, n] is contiguous along n."""
    rhs = type_of(op.rhs)
    return rhs.dtype == "int8" and rhs.rank == 2 and op.rhs_contract == (0,) and constant(op.rhs)
