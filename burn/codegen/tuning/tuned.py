"""A back end with a program's fastest variants: `before_passes`, then `before_printing`.

Each back end defines its variants and their search; the clock and the mode are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.codegen.artefact import artefact_of
from burn.codegen.backend import Backend
from burn.codegen.tuning import clock
from burn.codegen.tuning.modes import Mode
from burn.codegen.tuning.search import Measure, Trial
from burn.dialect.program import Program
from burn.runtime.device import Device

Run = Callable[[Program, Backend], None]
"""Takes a program through the passes for a back end."""


def before_passes(program: Program, backend: Backend, mode: Mode, device: Device, run: Run) -> Backend:
    """The back end with the fastest variants of the passes' decisions, or with variants drawn by the mode's seed.
    Raises CompileError for a program that autotuning cannot run, if the caller asked for autotuning."""
    if mode.seed is not None:
        backend = backend.drawn(mode.seed)

    def search() -> Backend:
        clock.check(program)
        return backend.with_fastest_layouts(program, run, mode.name, _clock(backend, device))

    return _or_default(mode, backend, search)


def before_printing(program: Program, backend: Backend, mode: Mode, device: Device) -> Backend:
    """The back end with the fastest variants of a fused program's kernels. Raises CompileError, see above."""

    def search() -> Backend:
        clock.check(program)
        return backend.with_fastest_kernels(program, mode.name, device, _clock(backend, device))

    return _or_default(mode, backend, search)


def _or_default(mode: Mode, backend: Backend, search: Callable[[], Backend]) -> Backend:
    """Default variants without autotuning, and for programs that cannot be timed if only the environment requests it.
    Errors of a variant's compilation are raised in both cases."""
    if mode.name == "off":
        return backend
    try:
        return search()
    except clock.Untimed:
        if not mode.requested:
            raise
        return backend


def _clock(backend: Backend, device: Device) -> Measure:
    def measure(trials: Sequence[Trial]) -> Sequence[Sequence[float]]:
        artefacts = [artefact_of(trial.program, trial.built, backend) for trial in trials]
        return clock.seconds(trials[0].program, artefacts, device)

    return measure
