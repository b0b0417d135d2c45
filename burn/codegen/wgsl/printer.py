"""Code for WebGPU: WGSL for the kernels, LLVM for the entry function, which runs on the host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from burn.codegen.backend import Built, Printer
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.kernels import KernelPrinter as HostKernelPrinter
from burn.codegen.host.entry import EntryBuilder
from burn.codegen.host.object import compile_object, compile_text
from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.heuristics import GPU, Shapes
from burn.codegen.wgsl.kernels import KernelPrinter
from burn.codegen.wgsl.launches import WGSLKernels
from burn.dialect.mlir import context, ir
from burn.dialect.op import full_name
from burn.dialect.program import Program
from burn.kernels.builders import kernels
from burn.kernels.liveness import Liveness
from burn.kernels.preferences import Preferences
from burn.kernels.text import groups
from burn.runtime.artefact import Target
from burn.runtime.memory import MemorySpace


@dataclass(frozen=True)
class WGSLPrinter(Printer):
    """See `Printer`."""

    host: CPU
    kind: str
    architecture: str
    preferences: Preferences
    shapes: Shapes = GPU

    @property
    def runs_on(self) -> Target:
        host = self.host.printer.runs_on
        return Target(host.triple, host.features, self.kind, self.architecture)

    def build(self, program: Program) -> Built:
        with context():
            kernels = self.kernels(program)
            entry = EntryBuilder(program, kernels, self.host.target.attributes).build()
            code = (compile_text if self.host.as_text else compile_object)(entry.functions)
        return entry.built(code, kernels.images)

    def listing(self, program: Program) -> str:
        """Every kernel of a fused program as a module of WGSL, each under its source nodes."""
        printer, origins, refused = KernelPrinter(shapes=self.shapes), dict[str, dict[str, None]](), list[str]()
        with context():
            for group in groups(program.block):
                nodes = [name for op in group.ops if (name := full_name(op))]
                try:
                    printed = [printer.print(call.kernel) for call in kernels(group, self.preferences)]
                except Unprintable as error:
                    refused.append(f"// on the host: {', '.join(nodes)}: {error}".replace("\n", " "))
                    continue
                for each in printed:
                    origins.setdefault(each.name, {}).update(dict.fromkeys(nodes))
        texts = [f"{_comment(origins[name])}{p.text}" for name, p in printer.functions.items() if name in origins]
        return "\n\n".join([*refused, *texts]) + "\n"

    def kernels(self, program: Program) -> WGSLKernels:
        """The printer of a program's kernels, with the preferences that the passes used."""
        direct, donated = Liveness(program.block).written_directly(program.outputs), program.donated
        in_place: set[ir.Value] = {root for root, number in direct.items() if number in donated}
        host = HostKernelPrinter(self.host.target)
        return WGSLKernels(host, self.preferences, in_place, MemorySpace(self.kind), self.shapes)


def _comment(nodes: Iterable[str]) -> str:
    names = ", ".join(nodes)
    return f"// from {names}\n" if names else ""
