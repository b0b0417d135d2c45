"""XLA's code: the program as MLIR text, with its weights as the artefact's constants. Modules are made when sizes are known."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.backend import Built, Printer
from burn.codegen.host.records import KernelRecord, sum_dims
from burn.codegen.hosted import operators
from burn.codegen.stablehlo.elements import has_carrier
from burn.codegen.stablehlo.lowering import text_of
from burn.codegen.xla.plan import Plan, Segment
from burn.dialect.mlir import context, ir
from burn.dialect.op import full_name
from burn.dialect.program import Program
from burn.dialect.text import to_text
from burn.dialect.types import type_of
from burn.errors import CompileError, Problem
from burn.runtime.artefact import Target
from burn.runtime.origins import resolved

TARGET = Target("any", (), "xla")
"""Text runs on any machine."""


@dataclass(frozen=True)
class XlaPrinter(Printer):
    """See `Printer`."""

    @property
    def runs_on(self) -> Target:
        return TARGET

    def build(self, program: Program) -> Built:
        """Raises CompileError that lists every op that cannot be run."""
        with context():
            plan = Plan.of(program.block)
            problems = [
                Problem(reason, op=op.OP_NAME, node=resolved(full_name(op))) for op, reason in plan.unsupported()
            ]
            problems += [
                Problem(f"{name}: StableHLO has no element type {type_.dtype}")
                for name, type_ in zip(program.input_names, program.input_types, strict=False)
                if not has_carrier(type_.dtype) and type_.dtype != "list"
            ]
            if problems:
                raise CompileError('device="xla" cannot run this program', list(dict.fromkeys(problems)))
            constants: dict[str, ir.Value] = {}
            for op in operators(program):
                if op.OP_NAME == "weight":
                    constants.setdefault(op.key, op.operation.results[0])
            launches = [step for step in plan.launches if isinstance(step, Segment)]
            records = [_record(segment) for segment in launches]
        code = to_text(program, locations=True).encode()
        first = [segment.ops[0].operation for segment in launches]
        return Built(code, list(constants.values()), [], [], records, first, sites_of(program))

    def listing(self, program: Program) -> str:
        """The StableHLO module, for a program whose sizes are numbers."""
        return text_of(program, {}, weights_inside=False, name="burn")[0]


def sites_of(program: Program) -> list[str]:
    """The source nodes of a program's ops, each once."""
    with context():
        return list(dict.fromkeys(full_name(op) for op in operators(program)))


def _record(segment: Segment) -> KernelRecord:
    names = [op.OP_NAME for op in segment.ops]
    name = "+".join(names[:4]) + ("+..." if len(names) > 4 else "")
    sources = tuple(dict.fromkeys(full_name(op) for op in segment.ops))
    values = (*segment.inputs, *segment.outputs)
    return KernelRecord(name, "module", sources, 0, sum_dims([type_of(v).bytes for v in values]))
