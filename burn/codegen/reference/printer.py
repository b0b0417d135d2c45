"""The reference device's code: the fused program as MLIR text, with its weights as the artefact's constants."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.backend import Built, Printer
from burn.codegen.host.groups import flops
from burn.codegen.host.records import KernelRecord, moved
from burn.codegen.hosted import operators
from burn.codegen.reference import control, debug, groups, library, lists, strings, views  # noqa: F401  they fill RUNS
from burn.codegen.reference.operators import RUNS
from burn.dialect.control import Group
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op, full_name, site
from burn.dialect.program import Program
from burn.dialect.shape import CheckSize
from burn.dialect.text import to_text
from burn.dialect.types import DTYPES, type_of
from burn.errors import CompileError, Problem
from burn.kernels.preferences import Preferences
from burn.kernels.text import program_text
from burn.runtime.artefact import Target

TARGET = Target("any", (), "reference")
"""Text runs on any machine."""

REAL = ("float", "small", "int", "uint", "bool")
"""Kinds of element types that have an order."""


@dataclass(frozen=True)
class ReferencePrinter(Printer):
    """See `Printer`."""

    preferences: Preferences

    @property
    def runs_on(self) -> Target:
        return TARGET

    def build(self, program: Program) -> Built:
        """Raises CompileError that lists every op that the interpreter cannot run."""
        with context():
            ops = operators(program)
            problems = [Problem(reason, op=op.OP_NAME, node=site(op)) for op in ops if (reason := _refused(op))]
            if problems:
                raise CompileError("the reference device cannot run this program", problems)
            constants: dict[str, ir.Value] = {}
            for op in ops:
                if op.OP_NAME == "weight":
                    constants.setdefault(op.key, op.operation.results[0])
            counted = [op for op in ops if is_launch(op)]
            records = [_record(op) for op in counted]
        code = to_text(program, locations=True).encode()
        return Built(
            code, list(constants.values()), [], [], records, [op.operation for op in counted], sites_of(program)
        )

    def listing(self, program: Program) -> str:
        """The kernels of every group, as the interpreter reads them."""
        return program_text(program, self.preferences)


def is_launch(op: Op) -> bool:
    """True for ops that compute: groups and library ops."""
    return RUNS[op.OP_NAME].computes


def sites_of(program: Program) -> list[str]:
    """The source nodes of a program's ops, those in groups included, and its conditions, one for each op in a fixed order."""
    names: list[str] = []
    with context():
        for op in operators(program):
            names.append(condition(op) if isinstance(op, CheckSize) else full_name(op))
            names += [full_name(inner) for inner in op.ops] if isinstance(op, Group) else []
    return names


def condition(op: CheckSize) -> str:
    """A size check as error messages name it."""
    return f"{op.size} {op.relation} {op.bound}" + (f" ({op.says})" if op.says else "")


def _refused(op: Op) -> str:
    """The reason why an op cannot be run; "" if it can."""
    if op.OP_NAME not in RUNS:
        return f"burn.{op.OP_NAME} has no interpretation"
    if op.OP_NAME == "sort" and DTYPES[dtype := type_of(op.x).dtype].kind not in REAL:
        return f"burn.sort of {dtype} is not supported"
    return ""


def _record(op: Op) -> KernelRecord:
    """The record of an op in profiles."""
    if not isinstance(op, Group):
        return KernelRecord(op.OP_NAME, "library", (full_name(op),), 0, moved(op.operation))
    names = [inner.OP_NAME for inner in op.ops]
    name = "+".join(names[:4]) + ("+..." if len(names) > 4 else "")
    sources = tuple(dict.fromkeys(full_name(inner) for inner in op.ops))
    return KernelRecord(name, op.kind, sources, flops(op.ops), moved(op.operation))
