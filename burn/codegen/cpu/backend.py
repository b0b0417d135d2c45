"""CPUs as a back end: one for each kind of CPU in `TARGETS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend
from burn.codegen.cpu import measured
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.layouts import CPULayouts
from burn.codegen.cpu.passes import passes_of
from burn.codegen.cpu.printer import CPUPrinter
from burn.codegen.cpu.target import Target, resolved
from burn.codegen.pipeline import Pipeline
from burn.codegen.tuning.choices import DEFAULT, Choices
from burn.dialect.program import Program
from burn.kernels.preferences import Preferences

if TYPE_CHECKING:
    from burn.codegen.tuning.search import Measure
    from burn.options import Options
    from burn.runtime.device import Device


@dataclass(frozen=True)
class CPU(Backend):
    """See `Backend`. Code is an object, or LLVM's text for another compiler (`as_text`). choices: the variants of kernels,
    panels, and convolutions. optimize: one of `burn.options.OPTIMIZATIONS`."""

    target: Target
    as_text: bool = False
    choices: Choices = DEFAULT
    optimize: str = "speed"

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def pipeline(self) -> Pipeline:
        return passes_of(self.target)

    @property
    def preferences(self) -> Preferences:
        return preferences_of(self.target)

    @property
    def layouts(self) -> CPULayouts:
        return CPULayouts(self.name, self.target, self.choices)

    @property
    def custom_bodies(self) -> tuple[str, ...]:
        return ("c", "functions", "python")

    @property
    def printer(self) -> CPUPrinter:
        return CPUPrinter(self.target, self.as_text, self.choices, self.optimize)

    def drawn(self, seed: int) -> CPU:
        return replace(self, choices=Choices(seed=seed))

    def with_fastest_layouts(
        self, program: Program, run: Callable[[Program, Backend], None], mode: str, measure: Measure
    ) -> CPU:
        from burn.codegen.cpu.tuning import passes_tuned, with_unique_weights

        def taken(backend: CPU) -> Program:
            copy = with_unique_weights(program.copy())
            run(copy, backend)
            return copy

        return passes_tuned(program, taken, self, mode, measure)

    def with_fastest_kernels(self, program: Program, mode: str, device: Device, measure: Measure) -> CPU:
        from burn.codegen.cpu.tuning import kernels_tuned

        return kernels_tuned(program, self, mode, measure)


def for_options(options: Options) -> CPU:
    """The CPU that options name, with the costs of its kind; or this machine's, with the costs that were measured here. Sums of
    exact programs have one order, which costs may change. Raises TypeMismatch for an unknown target."""
    target = resolved(options.target)
    if options.uses_measured_costs:
        target = replace(target, costs=measured.costs(target))
    target = replace(target, exact=True) if options.exact else target
    target = replace(target, mixed=True) if options.half and not target.exact else target
    return CPU(target, options.as_text, optimize=options.optimize)
