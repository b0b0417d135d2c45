"""Autotuning on a CPU: variants that are faster there than the heuristics' defaults.

Decisions of passes are searched first, because kernels depend on them: which convolutions are transformed into the Winograd
domain, then panel widths. Each trial runs the passes on a copy of the program. A choice's time is that of all launches
from its source nodes. `kernels_tuned` then searches orders, blocks and loops of the kernels (`candidates.py`). Compared
variants run interleaved (`burn.codegen.tuning.search`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.candidates import Panel, Winograd
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Choices, Variant
from burn.codegen.tuning.search import Measure, Trial, search
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.text import to_text
from burn.runtime import _native
from burn.runtime.host import processor

WORTH = 0.95
"""The largest fraction of the default's time for a variant to be adopted. Other work on the machine, and memory
placement, change timings by more than a few percent."""

TOGETHER = 3
"""Variants of kernels that run interleaved with the default: more of them share its runs, but need an arena each."""

Pass = Callable[[CPU], Program]
"""Runs the passes of a back end on a copy of the program."""


def machine(backend: CPU) -> str:
    """The machine's part of a timing's key: the CPU, the target, the number of threads."""
    exact = " exact" if backend.target.exact else ""
    return f"{processor()} {backend.name}{exact} {_native.num_threads()} threads"


def with_unique_weights(program: Program) -> Program:
    """Gives each op of the program a location of its own, because timings are counted by source node. In a traced
    function many ops share one."""
    with context():
        operations = [each.operation for block in blocks(program.block) for each in block.operations]
        for number, operation in enumerate(operations):
            operation.location = ir.Location.name(f"{operation.name} {number}")
    return program


def passes_tuned(program: Program, taken: Pass, backend: CPU, mode: str, measure: Measure) -> CPU:
    """The back end with the fastest variants of the passes' decisions. program: before the passes."""
    book, seen = Book.of(machine(backend), "cpu"), _seen(taken, backend)
    is_current = True
    for kind in (Winograd, Panel):
        seen = seen if is_current else _seen(taken, backend)
        known = {key: variants for key, variants in seen.items() if isinstance(variants[0], kind)}
        found = search(Decided(program, taken, backend, known), mode, book, measure)
        backend = replace(backend, choices=Choices({**backend.choices.picked, **found}))
        is_current = all(known[key][0] == variant for key, variant in found.items())
    return backend


def _seen(taken: Pass, backend: CPU) -> dict[str, list[Variant]]:
    """The decisions of passes, with their variants."""
    seen: dict[str, list[Variant]] = {}
    taken(replace(backend, choices=replace(backend.choices, seen=seen)))
    return seen


def kernels_tuned(program: Program, backend: CPU, mode: str, measure: Measure) -> CPU:
    """The back end with the fastest variants of a fused program's kernels."""
    found = search(Printed(program, backend), mode, Book.of(machine(backend), "cpu"), measure)
    return replace(backend, choices=Choices({**backend.choices.picked, **found}))


@dataclass(frozen=True)
class Decided:
    """The decisions of passes, of one kind. See `burn.codegen.tuning.search.Subject`. program: before the passes. known: the
    variants."""

    program: Program
    taken: Pass
    backend: CPU
    known: dict[str, list[Variant]]

    worth = WORTH
    interleaved = 1  # each trial has its own packed weights

    def text(self) -> str:
        return to_text(self.program)

    def variants(self) -> dict[str, list[Variant]]:
        return self.known

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        return set()

    def build(self, trials: Sequence[Mapping[str, Variant]]) -> list[Trial]:
        return [self._built(picked) for picked in trials]

    def _built(self, picked: Mapping[str, Variant]) -> Trial:
        queried: dict[str, set[str]] = {}
        backend = replace(self.backend, choices=Choices({**self.backend.choices.picked, **picked}, queried=queried))
        program = self.taken(backend)
        built = backend.printer.build(program)
        behind = {
            launch: {key for node in record.sources for key in queried.get(node, ())}
            for launch, record in enumerate(built.records)
        }
        return Trial(program, built, behind)


@dataclass(frozen=True)
class Printed:
    """The kernels of a fused program. See `burn.codegen.tuning.search.Subject`."""

    program: Program
    backend: CPU

    worth = WORTH
    interleaved = TOGETHER

    def text(self) -> str:
        return to_text(self.program)

    def variants(self) -> dict[str, list[Variant]]:
        seen: dict[str, list[Variant]] = {}
        replace(self.backend, choices=replace(self.backend.choices, seen=seen)).printer.describe(self.program)
        return seen

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        return set()

    def build(self, trials: Sequence[Mapping[str, Variant]]) -> list[Trial]:
        variants = [Choices({**self.backend.choices.picked, **picked}) for picked in trials]
        if len(variants) == 1:
            made = [replace(self.backend, choices=variants[0]).printer.build(self.program)]
        else:
            made = self.backend.printer.build_each(self.program, variants)
        return [Trial(self.program, built, {n: (key,) for n, key in built.chosen.items()}) for built in made]
