"""The CPU as a back end: one for each kind of CPU in `TARGETS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend, Built, pipeline
from burn.codegen.cpu import candidates
from burn.codegen.cpu.brief import is_brief, is_long
from burn.codegen.cpu.candidates import Panel, Points
from burn.codegen.cpu.heuristics import winograd
from burn.codegen.cpu.heuristics.panels import interleaved_width, packed_width
from burn.codegen.cpu.heuristics.programs import written_numbers
from burn.codegen.cpu.heuristics.wants import WANTS
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import Target, resolved
from burn.codegen.host.entry import Entry, EntryBuilder
from burn.codegen.host.object import compile_object, compile_text, module_text
from burn.codegen.tuning.choices import USUAL, Choices, digest
from burn.dialect.control import Group
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.kernels.wants import Convolution, Product, Wants
from burn.runtime.artefact import Target as ArtefactTarget

if TYPE_CHECKING:
    from burn.codegen.tuning.search import Measure
    from burn.options import Options
    from burn.runtime.device import Device

GRADIENTS = ("attention_forward", "attention_backward")
"""Composites that there are kernels for, besides those of every device."""

PIPELINE = pipeline("winograd,pack", GRADIENTS, few_bits=True)
"""Convolutions become products of fewer multiplications; right sides of products become panels."""

NARROW = pipeline(f"winograd{{{winograd.NARROW}}},pack", GRADIENTS, few_bits=True)
"""The same where vectors are short."""

PLAIN = pipeline("pack", GRADIENTS, few_bits=True)
"""Where sums are wanted as they stand."""

SLENDER = pipeline("winograd{constants=false},pack{borders=false}", GRADIENTS, few_bits=True)
"""Where constants must not grow, nor memory."""

FETCHED = pipeline(f"winograd{{{winograd.FETCHED}}},pack{{borders=false}}", GRADIENTS, few_bits=True)
"""Where vectors are short, too, and constants may grow a little."""

COMPACT = pipeline("pack{borders=false}", GRADIENTS, few_bits=True)
"""Where code must be short as well, or sums are wanted as they stand there."""

FOLDING = "decompose,fuse,release"
"""For programs of constants, which run once: quick to compile."""


@dataclass(frozen=True)
class CPU(Backend):
    """See `Backend`. Its code is an object; LLVM's text where another compiler is to go on (`as_text`). choices: which forms
    kernels have, panels, and convolutions at points."""

    target: Target
    as_text: bool = False
    choices: Choices = USUAL

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def passes(self) -> str:
        target, slender = self.target, self.target.is_slender
        if target.compact or target.exact:
            return COMPACT if slender else PLAIN
        if winograd.is_narrow(target):
            return FETCHED if slender else NARROW
        return SLENDER if slender else PIPELINE

    @property
    def folding(self) -> str:
        return FOLDING

    @property
    def wants(self) -> Wants:
        return WANTS

    @property
    def byte_run(self) -> int:
        return self.target.byte_run

    def panel(self, product: Product) -> int:
        of = interleaved_width(product, self.target) if product.interleaved > 1 else None
        usual = Panel(packed_width(product, self.target) if of is None else of)
        if self._is_plain:
            return usual.width
        choice = self.choices.of(lambda: digest("panel", repr(product)), product.node)
        return choice.pick(usual, lambda: candidates.panels(product, self.target)).width

    def at_points(self, convolution: Convolution, pays: bool) -> bool:
        if self._is_plain:
            return pays
        choice = self.choices.of(lambda: digest("points", repr(convolution)), convolution.node)
        return choice.pick(Points(pays), lambda: candidates.points(convolution, pays)).taken

    @property
    def _is_plain(self) -> bool:
        """Whether products are laid out in the usual way: where code is to be short, and where sums are wanted as they stand, as
        how many vectors a panel has decides into how many a sum is split."""
        return self.target.compact or self.target.exact

    @property
    def runs_on(self) -> ArtefactTarget:
        return ArtefactTarget(self.target.triple, self.target.features)

    def build(self, program: Program) -> Built:
        if not (self.as_text or self.target.is_compiled_here):
            raise CompileError(f"this machine makes no objects for {self.name}", ["ask for LLVM's text (as_text)"])
        with context():
            entry, chosen = self._entry(program)
            code = (compile_text if self.as_text else compile_object)(entry.functions)
        return replace(entry.built(code), chosen=chosen)

    def describe(self, program: Program) -> None:
        """Prints all of a program and compiles nothing: whoever asks which forms there are (`Choices.seen`) is told."""
        with context():
            self._entry(program)

    def drawn(self, seed: int) -> CPU:
        return replace(self, choices=Choices(seed=seed))

    def with_fastest_layouts(
        self, program: Program, run: Callable[[Program, Backend], None], mode: str, measure: Measure
    ) -> CPU:
        from burn.codegen.cpu.tuning import passes_tuned, told_apart

        def taken(backend: CPU) -> Program:
            copy = told_apart(program.copy())
            run(copy, backend)
            return copy

        return passes_tuned(taken, self, mode, measure)

    def with_fastest_kernels(self, program: Program, mode: str, device: Device, measure: Measure) -> CPU:
        from burn.codegen.cpu.tuning import kernels_tuned

        return kernels_tuned(program, self, mode, measure)

    def listing(self, program: Program) -> str:
        """What `build` compiles, in MLIR's own dialects."""
        with context():
            return module_text(self._entry(program)[0].functions)

    def _entry(self, program: Program) -> tuple[Entry, Mapping[int, str]]:
        """The program printed, and which choices are behind its launches. Where forms are drawn (`Choices.seed`) no program is
        too small for them."""
        target = replace(self.target, small=is_brief(program) and self.choices.seed is None)
        groups = sum(isinstance(op.opview, Group) for op in program.block.operations)
        kernels = KernelPrinter(target, small=written_numbers(target, groups), choices=self.choices)
        as_table = target.compact or is_long(program)
        entry = EntryBuilder(program, kernels, target.attributes, as_table).build()
        return entry, kernels.chosen


def for_options(options: Options) -> CPU:
    """Raises TypeMismatch for an unknown target."""
    target = resolved(options.target)
    return CPU(replace(target, exact=True) if options.exact else target, options.as_text)
