"""Autotuning on a CPU: forms that are faster there than those that the heuristics name.

What passes decide is searched through first, as kernels follow from it: which convolutions become products at points, then how
wide panels are. Each trial takes a copy of the program through the passes, and the time of a choice is that of all launches that
come from its source nodes. `kernels_tuned` then goes on with the orders, blocks and loops of the kernels (`candidates.py`) of
what the passes made. Whatever is compared runs by turns (`burn.codegen.tuning.search`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.candidates import Panel, Points
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Choices, Form
from burn.codegen.tuning.search import Measure, Trial, search
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.runtime import _native
from burn.runtime.host import processor

WORTH = 0.95
"""Of the usual form's time: what another takes at most. Other work on the machine, and where memory happens to lie, make more of
a difference than a few hundredths."""

Pass = Callable[[CPU], Program]
"""A copy of the program, taken through the passes for a back end."""


def machine(backend: CPU) -> str:
    """All that times depend on but the program: the CPU, what is compiled for, the number of threads."""
    exact = " exact" if backend.target.exact else ""
    return f"{processor()} {backend.name}{exact} {_native.num_threads()} threads"


def told_apart(program: Program) -> Program:
    """The program with a source node of its own for each op, as times are counted by those: in a traced function many ops share
    one."""
    with context():
        operations = [each.operation for block in blocks(program.block) for each in block.operations]
        for number, operation in enumerate(operations):
            operation.location = ir.Location.name(f"{operation.name} {number}")
    return program


def passes_tuned(taken: Pass, backend: CPU, mode: str, measure: Measure) -> CPU:
    """The back end with the fastest of what passes decide."""
    book, seen = Book.of(machine(backend)), _seen(taken, backend)
    for kind in (Points, Panel):
        known = {key: forms for key, forms in seen.items() if isinstance(forms[0], kind)}
        found = search(Decided(taken, backend, known), mode, book, measure)
        backend = replace(backend, choices=Choices({**backend.choices.picked, **found}))
        if any(known[key][0] != form for key, form in found.items()):
            seen = _seen(taken, backend)
    return backend


def _seen(taken: Pass, backend: CPU) -> dict[str, list[Form]]:
    """What passes decide, and what each might be."""
    seen: dict[str, list[Form]] = {}
    taken(replace(backend, choices=replace(backend.choices, seen=seen)))
    return seen


def kernels_tuned(program: Program, backend: CPU, mode: str, measure: Measure) -> CPU:
    """The back end with the fastest forms of a fused program's kernels, too."""
    found = search(Printed(program, backend), mode, Book.of(machine(backend)), measure)
    return replace(backend, choices=Choices({**backend.choices.picked, **found}))


@dataclass(frozen=True)
class Decided:
    """What passes decide, of one kind. See `burn.codegen.tuning.search.Subject`. known: its forms."""

    taken: Pass
    backend: CPU
    known: dict[str, list[Form]]

    worth = WORTH
    by_turns = True

    def forms(self) -> dict[str, list[Form]]:
        return self.known

    def prepare(self, trials: Sequence[Mapping[str, Form]]) -> set[tuple[str, int]]:
        return set()

    def build(self, picked: Mapping[str, Form]) -> Trial:
        asked: dict[str, set[str]] = {}
        backend = replace(self.backend, choices=Choices({**self.backend.choices.picked, **picked}, asked=asked))
        program = self.taken(backend)
        built = backend.printer.build(program)
        behind = {
            launch: {key for node in record.sources for key in asked.get(node, ())}
            for launch, record in enumerate(built.records)
        }
        return Trial(program, built, behind)


@dataclass(frozen=True)
class Printed:
    """The kernels of a fused program. See `burn.codegen.tuning.search.Subject`."""

    program: Program
    backend: CPU

    worth = WORTH
    by_turns = True

    def forms(self) -> dict[str, list[Form]]:
        seen: dict[str, list[Form]] = {}
        replace(self.backend, choices=replace(self.backend.choices, seen=seen)).printer.describe(self.program)
        return seen

    def prepare(self, trials: Sequence[Mapping[str, Form]]) -> set[tuple[str, int]]:
        return set()

    def build(self, picked: Mapping[str, Form]) -> Trial:
        choices = Choices({**self.backend.choices.picked, **picked})
        built = replace(self.backend, choices=choices).printer.build(self.program)
        return Trial(self.program, built, {launch: (key,) for launch, key in built.chosen.items()})
