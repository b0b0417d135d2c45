"""Graphics cards as a back end: Triton compiles the kernels, LLVM the entry function, which runs on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend, Built, pipeline
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.backend import for_options as cpu_for_options
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import TARGETS
from burn.codegen.host.entry import EntryBuilder
from burn.codegen.host.object import compile_object, compile_text
from burn.codegen.registry import PORTABLE
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.heuristics.sizes import UNKNOWN, Usual, usual_sizes
from burn.codegen.triton.heuristics.wants import wants
from burn.codegen.triton.images import Machine, Source, compile_all
from burn.codegen.triton.kernels import KernelPrinter as GPUKernelPrinter
from burn.codegen.triton.launches import CardKernels
from burn.codegen.triton.program import module_text
from burn.codegen.tuning.choices import USUAL, Choices
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.kernels.liveness import Liveness
from burn.kernels.wants import Wants
from burn.runtime.artefact import KernelImage, Target
from burn.runtime.memory import MemorySpace

if TYPE_CHECKING:
    from burn.codegen.tuning.search import Measure
    from burn.options import Options
    from burn.runtime.device import Device

PIPELINE = pipeline("align", ("attention_forward", "attention_backward"))
"""Nothing is packed: block products read both sides as they lie."""


@dataclass(frozen=True)
class GPU(Backend):
    """See `Backend`. kind: "cuda" or "hip"; architecture: "sm_90", "gfx942"; warp: threads that go in step; host: the CPU beside
    the card; choices: which shapes the blocks of kernels have; images: machine code that is there already; hints: sizes that
    symbols usually have, which `session` takes from a program; portable: kernels use only what Triton has on every GPU."""

    host: CPU = field(default_factory=lambda: CPU(TARGETS["generic"]))
    kind: str = "cuda"
    architecture: str = "sm_90"
    warp: int = 32
    choices: Choices = USUAL
    images: Mapping[Source, KernelImage] = field(default_factory=dict)
    hints: Usual = field(default_factory=lambda: UNKNOWN)
    portable: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind} {self.architecture}"

    @property
    def passes(self) -> str:
        return PIPELINE

    @property
    def folding(self) -> str:
        """What is run while compiling runs on the host."""
        return self.host.folding

    def session(self, program: Program) -> GPU:
        return replace(self, hints=usual_sizes(program.usual))

    @property
    def abilities(self) -> Abilities:
        return USUAL_ABILITIES if self.portable else Abilities.of(self.kind, self.architecture)

    @property
    def wants(self) -> Wants:
        return wants(self.hints, self.abilities)

    @property
    def runs_on(self) -> Target:
        host = self.host.runs_on
        return Target(host.triple, host.features, self.kind, self.architecture)

    def build(self, program: Program) -> Built:
        with context():
            kernels = self.kernels(program)
            entry = EntryBuilder(program, kernels, self.host.target.attributes).build()
            code = (compile_text if self.host.as_text else compile_object)(entry.functions)
        known = self.images
        images = (
            compile_all(kernels.sources, self.machine, known) if known else compile_all(kernels.sources, self.machine)
        )
        return replace(entry.built(code, images), chosen=kernels.chosen)

    def with_fastest_kernels(self, program: Program, mode: str, device: Device, measure: Measure) -> GPU:
        from burn.codegen.triton.tuning import tuned

        return tuned(program, self, mode, device.hardware, measure)

    def listing(self, program: Program) -> str:
        """Every kernel of a fused program, as a module of Triton's language. Raises CompileError."""
        return module_text(program, self.wants, GPUKernelPrinter(None, self.abilities, self.choices, self.hints))

    @property
    def machine(self) -> Machine:
        return Machine.named(self.kind, self.architecture, self.warp)

    def kernels(self, program: Program) -> CardKernels:
        """The printer of a program's kernels, which it describes by the same preferences as the passes did."""
        host = KernelPrinter(self.host.target)
        written, space = _in_place(program), MemorySpace(self.kind)
        return CardKernels(host, self.wants, written, self.abilities, self.choices, self.hints, space)


def for_options(options: Options) -> GPU:
    """The architecture is the device's own unless the options name one. Raises DeviceError for a GPU that is not there."""
    host, kind = cpu_for_options(options), options.device.kind
    if options.architecture == PORTABLE:
        return GPU(host, kind, portable=True)
    if options.architecture:
        return GPU(host, kind, options.architecture)
    facts = options.device.facts()
    return GPU(host, kind, facts["architecture"], facts["warp"])


def _in_place(program: Program) -> set[ir.Value]:
    """What is written over inputs that the caller gives up."""
    direct = Liveness(program.block).written_directly(program.outputs)
    return {root for root, number in direct.items() if number in program.donated}
