"""The verifier: checks every op against its own rules, and every size against its definer.

It replaces MLIR's verifier, which does not support variadic operands of several types in an IRDL op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.control import Group, defined_symbols
from burn.dialect.dims import symbols
from burn.dialect.mentions import attribute_symbols
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op, site
from burn.dialect.program import Program
from burn.dialect.shape import Weight
from burn.dialect.types import TensorType, type_of
from burn.errors import BurnError, CompileError, Problem
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Verify:
    """Raises one error with all problems of a program. These are result types that differ from inference, uses of
    values and sizes before their definition, sizes defined twice, and weights with another type than declared."""

    name: ClassVar[str] = "verify"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        checker = _Checker(program)
        with context():
            checker.arguments(program.block)
            checker.block(program.block)
        if checker.problems:
            raise CompileError("the program is malformed", checker.problems)


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.problems: list[Problem] = []
        self.known: set[str] = set()
        self.values: set[ir.Value] = set()  # in scope
        self.defined: set[str] = set()  # in the whole program, so that no size has two definers

    def arguments(self, block: ir.Block) -> None:
        """An input's shape defines the sizes that appear alone in it; other sizes must be expressions of those."""
        for argument in block.arguments:
            self.known |= {str(d) for d in type_of(argument).shape if not isinstance(d, int) and d.is_symbol}
        self.defined |= self.known
        for name, argument in zip(self.program.input_names, block.arguments, strict=True):
            for size in sorted(_symbols(type_of(argument)) - self.known):
                self.problems.append(Problem(f"nothing defines the size '{size}' of input '{name}'"))

    def block(self, block: ir.Block) -> None:
        self.values.update(block.arguments)
        for operation in block.operations:
            op = operation.opview
            if isinstance(op, Op):
                self.op(op)
            else:
                self.problems.append(Problem("is no op of burn", op=operation.operation.name))
            self.values.update(operation.operation.results)

    def op(self, op: Op) -> None:
        def problem(message: str) -> None:
            self.problems.append(Problem(message, node=site(op), op=op.OP_NAME))

        for number, operand in enumerate(op.operation.operands):
            if operand not in self.values:
                problem(f"operand {number} is not defined before it")
        own = defined_symbols(op)
        for size in sorted(own & self.defined):
            problem(f"the size '{size}' is defined a second time")
        self.defined |= own
        used = attribute_symbols(op) - own
        for size in sorted(used - self.known):
            problem(f"the size '{size}' is not defined here")
        self.known |= own
        for region in op.operation.regions if not isinstance(op, Group) else ():  # a group checks its own ops
            for inner in region.blocks:
                outside = set(self.known), set(self.values)
                self.block(inner)
                self.known, self.values = outside
        for result in op.operation.results:
            for size in sorted(_symbols(type_of(result)) - self.known - used):
                problem(f"the size '{size}' of a result is not defined here")
        try:
            op.check()
        except BurnError as error:
            self.problems += error.problems
        except (
            AssertionError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:  # operands that inference cannot handle
            problem(f"its operands and attributes do not fit together ({error})")
        if isinstance(op, Weight) and op.key in self.program.weights:  # a program may be checked without its weights
            weight = self.program.weights.weight(op.key)
            have, want = TensorType(weight.dtype, weight.shape), type_of(op.operation.results[0])
            if have != want:
                problem(f"weight '{op.key}' is {have}, not {want}")


def _symbols(type_: TensorType) -> set[str]:
    return {name for dim in type_.shape for name in symbols(dim)}
