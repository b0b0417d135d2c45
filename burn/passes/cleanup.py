"""What passes leave to be done behind them: erasing what nothing uses, merging what is computed twice."""

from __future__ import annotations

from burn.dialect.mlir import PassManager
from burn.dialect.program import Program


def merge_equal(program: Program) -> None:
    """Common subexpression elimination, upstream's: pure ops with equal operands and attributes become one."""
    manager = PassManager.parse("builtin.module(func.func(cse))")
    manager.enable_verifier(False)  # IRDL cannot type variadic operands: verify.py checks programs
    manager.run(program.module.operation)
