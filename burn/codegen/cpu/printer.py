"""Code for CPUs: a program as an entry function with its kernels, compiled to an object or left as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from burn.codegen.backend import Built, Printer
from burn.codegen.cpu.code_size import is_long, runs_briefly
from burn.codegen.cpu.heuristics.programs import written_numbers
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import Target
from burn.codegen.host.entry import Entry, EntryBuilder
from burn.codegen.host.object import ENTRY, compile_object, compile_text, module_text
from burn.codegen.host.together import named, together
from burn.codegen.tuning.choices import Choices
from burn.dialect.control import Group
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.runtime.artefact import Target as ArtefactTarget


@dataclass(frozen=True)
class CPUPrinter(Printer):
    """See `Printer`. as_text: code is LLVM's text instead of an object. choices: the variants of kernels. optimize:
    one of `burn.options.OPTIMIZATIONS`."""

    target: Target
    as_text: bool
    choices: Choices
    optimize: str = "speed"

    @property
    def runs_on(self) -> ArtefactTarget:
        return ArtefactTarget(self.target.triple, self.target.features)

    def build(self, program: Program) -> Built:
        if not (self.as_text or self.target.is_compiled_here):
            raise CompileError(
                f"this machine makes no objects for {self.target.name}", ["ask for LLVM's text (as_text)"]
            )
        with context():
            entry, chosen = self._entry(program)
            functions = entry.functions
            code = (
                compile_text(functions)
                if self.as_text
                else compile_object(functions, optimized=not self._is_plain(program))
            )
        return replace(entry.built(code), chosen=chosen)

    def build_each(self, program: Program, variants: Sequence[Choices]) -> list[Built]:
        """The program in some variants, as one object: most of their kernels are the same. Raises CompileError."""
        with context():
            printed = [replace(self, choices=choices)._entry(program) for choices in variants]
            functions = together([entry.functions for entry, _ in printed])
            code = compile_object(functions, not self._is_plain(program), named(ENTRY, 0))
        return [
            replace(entry.built(code), chosen=chosen, entry=named(ENTRY, number))
            for number, (entry, chosen) in enumerate(printed)
        ]

    def describe(self, program: Program) -> None:
        """Prints the program without compiling it, which registers all variants with `Choices.seen`."""
        with context():
            self._entry(program)

    def listing(self, program: Program) -> str:
        """The code that `build` compiles, in MLIR's own dialects."""
        with context():
            return module_text(self._entry(program)[0].functions)

    def _is_plain(self, program: Program) -> bool:
        """True if LLVM's IR passes are left out."""
        return (self.optimize != "speed" or self._is_brief(program)) and not self.target.compact

    def _is_brief(self, program: Program) -> bool:
        """If variants are drawn (`Choices.seed`), no program is brief, so that small ones use them."""
        return self.choices.seed is None and runs_briefly(program)

    def _entry(self, program: Program) -> tuple[Entry, Mapping[int, str]]:
        """The printed program, and the choices that its launches depend on."""
        none = self.optimize == "none" and not (self.as_text or self.target.compact or self.target.tiles)
        target = replace(self.target, small=self._is_brief(program), unoptimized=none)
        groups = sum(isinstance(op.opview, Group) for op in program.block.operations)
        kernels = KernelPrinter(target, largest_constant=written_numbers(target, groups), choices=self.choices)
        as_table = target.compact or is_long(program)
        entry = EntryBuilder(program, kernels, target.attributes, as_table).build()
        return entry, kernels.chosen
