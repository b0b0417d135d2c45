"""Computes with numbers where a program checks that a size is one.

A module that torch exports for 32 images, in a step for batches of any size, starts with `check_size "batch" == 32`. Whatever
follows only runs with 32. Broadcasts and reductions over such sizes become known, and kernels are made for them.

Inputs keep their types, so that the check, with its reason, is what refuses other sizes.

A program may have parts for other sizes, in a branch that is not taken or after a second check. If these are not possible with
the number, or divide by a size that is 0, the program stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.dims import Atom, Dim, Expr, Symbol, substitute, symbols
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.shape import CheckSize
from burn.dialect.types import type_of
from burn.errors import TypeMismatch
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.sizes import replace_sizes


@register
@dataclass(frozen=True)
class FixSizes:
    """Sizes of inputs alone: they are checked before anything is computed."""

    name: ClassVar[str] = "fix_sizes"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        with context():
            sizes = checked_sizes(program)
            if not sizes:
                return {"fixed": 0}
            try:
                replace_sizes(program, sizes, checked=True)
            except (TypeMismatch, ZeroDivisionError):
                return {"fixed": 0}  # checks that contradict each other, or a branch for other sizes: the run decides
            _reshape_inputs(program, sizes)
        return {"fixed": len(sizes)}


def checked_sizes(program: Program) -> dict[str, Dim]:
    """The sizes of inputs that a check of the whole program compares with a number."""
    inputs = {name for value in program.inputs for dim in type_of(value).shape for name in symbols(dim)}
    found: dict[str, Dim] = {}
    for operation in program.block.operations:
        op = operation.opview
        if not isinstance(op, CheckSize) or op.relation != "==":
            continue
        for size, number in ((op.size, op.bound), (op.bound, op.size)):
            if isinstance(size, Expr) and size.is_symbol and isinstance(number, int) and number >= 0:
                found.setdefault(str(size), number)
    return {name: number for name, number in found.items() if name in inputs}


def _reshape_inputs(program: Program, sizes: dict[str, Dim]) -> None:
    """Reads inputs through views of known sizes."""
    atoms: dict[Atom, Dim] = {Symbol(name): number for name, number in sizes.items()}
    for value in program.inputs:
        shape = type_of(value).shape
        known = tuple(substitute(dim, atoms) for dim in shape)
        if known != shape and any(True for _ in value.uses):
            with ir.Location.unknown(), ir.InsertionPoint.at_block_begin(program.block):
                view = ops.reshape(value, shape=known)
            value.replace_all_uses_except(view, view.owner.operation)
