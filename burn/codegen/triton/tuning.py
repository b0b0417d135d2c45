"""Autotuning on a GPU: block shapes that are faster there than the heuristics' defaults. `tuned` is the entry point.

Every kernel that has a choice (matmuls, attention) is compiled in the few shapes that the cost model keeps (`candidates.py`). All
are compiled in parallel before any is timed (`burn.codegen.tuning.search`). The GPU's own clock times them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from burn.codegen.triton.abilities import SHARED_MEMORY
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.images import Source, compile_each
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Choices, Variant
from burn.codegen.tuning.search import Measure, Trial, report, search
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.text import to_text
from burn.kernels.structural_key import structural_key
from burn.kernels.text import groups
from burn.runtime.artefact import KernelImage

SHARED_UNKNOWN = 64 << 10
"""Bytes of shared memory that a block may have on every GPU."""

WORTH = 0.97
"""The largest fraction of the default's time for a variant to be adopted: the resolution of a GPU's timings."""


def tuned(program: Program, backend: GPU, mode: str, gpu: str, measure: Measure) -> GPU:
    """The back end with the fastest shapes for a fused program's kernels. gpu: its name. Raises CompileError."""
    shapes = Shapes(program, backend)
    picked = search(shapes, mode, Book.of(gpu, backend.kind), measure)
    return replace(backend, choices=Choices(picked), images=shapes.images)


@dataclass
class Shapes:
    """See `burn.codegen.tuning.search.Subject`. images: what has been compiled."""

    program: Program
    backend: GPU
    images: dict[Source, KernelImage] = field(default_factory=dict)

    worth = WORTH
    interleaved = 0

    def text(self) -> str:
        return to_text(self.program)

    def variants(self) -> dict[str, list[Variant]]:
        seen: dict[str, list[Variant]] = {}
        self._sources(Choices(seen=seen))
        return seen

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        """Compiles all kernels in all shapes in parallel, without those that do not fit the GPU."""
        found: dict[Source, set[tuple[str, int]]] = {}
        for number, trial in enumerate(trials):
            for source, keys in self._sources(Choices(trial)).items():
                found.setdefault(source, set()).update((key, number) for key in keys)
        report(f"compiling {len(found)} kernels")
        most = SHARED_MEMORY.get(self.backend.architecture, SHARED_UNKNOWN)
        unfit: set[tuple[str, int]] = set()
        for source, made in zip(found, compile_each(list(found), self.backend.printer.machine), strict=True):
            if isinstance(made, KernelImage) and made.shared <= most:
                self.images[source] = made
            else:
                unfit |= {(key, number) for key, number in found[source] if number}
        return unfit

    def build(self, trials: Sequence[Mapping[str, Variant]]) -> list[Trial]:
        return [self._built(picked) for picked in trials]

    def _built(self, picked: Mapping[str, Variant]) -> Trial:
        built = replace(self.backend, choices=Choices(picked), images=self.images).printer.build(self.program)
        return Trial(self.program, built, {launch: (key,) for launch, key in built.chosen.items()})

    def _sources(self, choices: Choices) -> dict[Source, set[str]]:
        """The kernels of a program to compile, with their choices."""
        with context():
            kernels = replace(self.backend, choices=choices).printer.kernels(self.program)
            for group in {(structural_key(g), kernels.variant(g)): g for g in groups(self.program.block)}.values():
                kernels.group(group)
        return {source: kernels.made_by.get(source, set()) for source in kernels.sources}
