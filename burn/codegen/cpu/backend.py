"""The CPU as a back end: one for each kind of CPU in `TARGETS`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burn.codegen.backend import Built, pipeline
from burn.codegen.cpu.brief import is_brief
from burn.codegen.cpu.heuristics import points
from burn.codegen.cpu.heuristics.panels import interleaved_width, packed_width
from burn.codegen.cpu.heuristics.programs import written_numbers
from burn.codegen.cpu.heuristics.wants import WANTS
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import Target
from burn.codegen.host.entry import Entry, EntryBuilder
from burn.codegen.host.object import compile_object, compile_text, module_text
from burn.dialect.control import Group
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.kernels.wants import Product, Wants
from burn.runtime.artefact import Target as ArtefactTarget

GRADIENTS = ("attention_forward", "attention_backward")
"""Composites that there are kernels for, besides those of every device."""

PIPELINE = pipeline("winograd,pack", GRADIENTS, few_bits=True)
"""Convolutions become products of fewer multiplications; right sides of products become panels."""

NARROW = pipeline(f"winograd{{{points.NARROW}}},pack", GRADIENTS, few_bits=True)
"""The same where vectors are short."""

PLAIN = pipeline("pack", GRADIENTS, few_bits=True)
"""Where sums are wanted as they stand."""

SLENDER = pipeline("winograd{constants=false},pack{borders=false}", GRADIENTS, few_bits=True)
"""Where constants must not grow, nor memory."""

FETCHED = pipeline(f"winograd{{{points.FETCHED}}},pack{{borders=false}}", GRADIENTS, few_bits=True)
"""Where vectors are short, too, and constants may grow a little."""

COMPACT = pipeline("pack{borders=false}", GRADIENTS, few_bits=True)
"""Where code must be short as well, or sums are wanted as they stand there."""

FOLDING = "decompose,fuse,release"
"""For programs of constants, which run once: quick to compile."""


@dataclass(frozen=True)
class CPU:
    """See `Backend`. Its code is an object; LLVM's text where another compiler is to go on (`as_text`)."""

    target: Target
    as_text: bool = False

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def passes(self) -> str:
        target, slender = self.target, self.target.is_slender
        if target.compact or target.exact:
            return COMPACT if slender else PLAIN
        if points.is_narrow(target):
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
        if product.interleaved > 1:
            return interleaved_width(product, self.target)
        return packed_width(product, self.target)

    @property
    def runs_on(self) -> ArtefactTarget:
        return ArtefactTarget(self.target.triple, self.target.features)

    def build(self, program: Program) -> Built:
        if not (self.as_text or self.target.is_compiled_here):
            raise CompileError(f"this machine makes no objects for {self.name}", ["ask for LLVM's text (as_text)"])
        with context():
            entry = self._entry(program)
            code = (compile_text if self.as_text else compile_object)(entry.functions)
        return entry.built(code)

    def mlir(self, program: Program) -> str:
        """What `build` compiles, in MLIR's own dialects."""
        with context():
            return module_text(self._entry(program).functions)

    def _entry(self, program: Program) -> Entry:
        target = replace(self.target, small=is_brief(program))
        groups = sum(isinstance(op.opview, Group) for op in program.block.operations)
        kernels = KernelPrinter(target, small=written_numbers(target, groups))
        return EntryBuilder(program, kernels, target.attributes, target.compact).build()
