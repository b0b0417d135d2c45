"""Differentiates a whole program: the derivatives of an output by inputs become further outputs.

The rules are the dialect's (burn/dialect/adjoint). Functions of tensors are differentiated during tracing or recording
(`burn.grad`). This pass runs after `recognise` and before `decompose`, because composites have rules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import FLOATS, type_of
from burn.errors import Problem, TypeMismatch
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Autodiff:
    """Appends the derivatives of output `of`, a float scalar, by the inputs `by` (numbers joined by "+"; by default all
    that hold floats), in their order. Raises TypeMismatch."""

    name: ClassVar[str] = "autodiff"
    of: int = 0
    by: str = ""

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        inputs = self._inputs(program)
        outputs = program.outputs
        if not 0 <= self.of < len(outputs):
            raise TypeMismatch("there is no such output", [f"number {self.of} of {len(outputs)}"])
        loss = outputs[self.of]
        if type_of(loss).dtype not in FLOATS or type_of(loss).rank:
            raise TypeMismatch("what is differentiated is a float scalar", [f"output {self.of} is {type_of(loss)}"])
        names = [f"d {program.output_names[self.of]} / d {program.input_names[i]}" for i in inputs]
        end = program.terminator
        with context(), ir.Location.name("autodiff"), ir.InsertionPoint(end):
            one = ops.full(shape=(), dtype=type_of(loss).dtype, value=1.0)
            by = [program.inputs[i] for i in inputs]
            found = gradients([loss], [one], by)
            grads = [_or_zeros(g, x) for g, x in zip(found, by, strict=True)]
        outputs = program.outputs  # a composite may have been decomposed
        end.erase()
        program.finish([*zip(program.output_names, outputs, strict=True), *zip(names, grads, strict=True)])

    def _inputs(self, program: Program) -> list[int]:
        floats = [i for i, t in enumerate(program.input_types) if t.dtype in FLOATS]
        if not self.by:
            return floats
        numbers = [int(text) if text.isdecimal() else -1 for text in self.by.split("+")]
        wrong = [
            Problem(f"'{t}' is no float input")
            for t, n in zip(self.by.split("+"), numbers, strict=True)
            if n not in floats
        ]
        if wrong:
            raise TypeMismatch("only float inputs are differentiated by", wrong)
        return numbers


def _or_zeros(g: ir.Value | None, like: ir.Value) -> ir.Value:
    type_ = type_of(like)
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0) if g is None else g
