"""Code for GPUs: Triton compiles the kernels, LLVM the entry function, which runs on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue

from burn.codegen.backend import Built, Printer
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.host.entry import EntryBuilder
from burn.codegen.host.object import compile_object, compile_text
from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.heuristics.sizes import SizeHints
from burn.codegen.triton.images import Machine, Source, compile_all
from burn.codegen.triton.kernels import KernelPrinter as GPUKernelPrinter
from burn.codegen.triton.launches import GPUKernels
from burn.codegen.triton.program import module_text
from burn.codegen.tuning.choices import Choices
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.kernels.liveness import Liveness
from burn.kernels.preferences import Preferences
from burn.runtime.artefact import KernelImage, Target
from burn.runtime.memory import MemorySpace


@dataclass(frozen=True)
class GPUPrinter(Printer):
    """See `Printer`. The fields are those of the back end (`GPU`), with its preferences and abilities."""

    host: CPU
    kind: str
    architecture: str
    warp: int
    preferences: Preferences
    abilities: Abilities
    choices: Choices
    hints: SizeHints
    images: Mapping[Source, KernelImage]

    @property
    def runs_on(self) -> Target:
        host = self.host.printer.runs_on
        return Target(host.triple, host.features, self.kind, self.architecture)

    @property
    def machine(self) -> Machine:
        return Machine.named(self.kind, self.architecture, self.warp)

    def build(self, program: Program) -> Built:
        printed: SimpleQueue[Source | None] = SimpleQueue()
        with context(), ThreadPoolExecutor(1) as beside:
            images = beside.submit(compile_all, iter(printed.get, None), self.machine, self.images)
            try:
                kernels = self.kernels(program, printed.put)
                entry = EntryBuilder(program, kernels, self.host.target.attributes).build()
            finally:
                printed.put(None)
            code = (compile_text if self.host.as_text else compile_object)(entry.functions)
        return replace(entry.built(code, images.result()), chosen=kernels.chosen)

    def listing(self, program: Program) -> str:
        """Every kernel of a fused program, as a module of Triton's language."""
        printer = GPUKernelPrinter(None, self.abilities, self.choices, self.hints)
        return module_text(program, self.preferences, printer)

    def kernels(self, program: Program, printed: Callable[[Source], None] = lambda source: None) -> GPUKernels:
        """The printer of a program's kernels, with the preferences that the passes used. printed: called with each new source."""
        host, space = KernelPrinter(self.host.target), MemorySpace(self.kind)
        written = _in_place(program)
        given = (self.preferences, written, self.abilities, self.choices, self.hints, space, printed)
        return GPUKernels(host, *given)


def _in_place(program: Program) -> set[ir.Value]:
    """Values that are written to the memory of donated inputs."""
    direct, donated = Liveness(program.block).written_directly(program.outputs), program.donated
    return {root for root, number in direct.items() if number in donated}
