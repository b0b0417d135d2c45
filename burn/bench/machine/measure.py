"""Measures all costs of this machine, in a budget of seconds. `measure` is the entry point."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from burn.bench.machine import direct
from burn.bench.machine.clock import Timer, Unmeasurable
from burn.bench.machine.search import LOSS, confirmed, search, searches
from burn.codegen.cpu.costs import FIELDS, Costs
from burn.codegen.cpu.measured import Measurement
from burn.codegen.cpu.target import Target
from burn.runtime import _native
from burn.runtime.host import processor

NOISE = 0.10
"""The largest noise of the times that a cost is taken from."""

SECONDS = 60.0
"""The default budget. A subject that has begun is finished, and costs are confirmed after it, for half a minute at most."""

LATE = "no time was left"
NOT_MEASURED = "it has no measurement"


@dataclass
class _Results:
    measured: dict[str, int]
    kept: dict[str, str]
    costs: Costs

    def take(self, values: Mapping[str, int]) -> None:
        self.measured |= values
        self.costs = replace(self.costs, **values)


def measure(
    target: Target,
    seconds: float = SECONDS,
    timer: Timer | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Measurement:
    """The costs of this machine for a target that it can run. A cost that cannot be measured, or only with more noise than NOISE,
    keeps its default, with the reason in `kept`.

    A cost also keeps its default if a small network is slower with it, on all threads of the process. Programs run on one
    thread, those of `grain` on two, and those of Winograd's costs on all. progress: is called with each subject."""
    timer = timer or Timer()
    threads, start = _native.num_threads(), time.perf_counter()
    results = _Results({}, dict.fromkeys(FIELDS, NOT_MEASURED), target.costs)

    def is_late() -> bool:
        return time.perf_counter() - start > seconds

    for subject, (measurement, names) in direct.MEASURES.items():
        progress(subject)
        with _threads(1):
            _direct(measurement, names, target, results, timer, is_late())
    for each in searches(target):
        progress(each.subject)
        if is_late():
            results.kept |= dict.fromkeys(each.costs, LATE)
            continue
        wanted = each.threads or threads
        if wanted > threads:
            results.kept |= dict.fromkeys(each.costs, f"it needs {wanted} threads, and the process has {threads}")
            continue
        with _threads(wanted):
            found = search(each, target, results.costs, timer)
        if found.noise > NOISE:
            results.kept |= dict.fromkeys(each.costs, _noise(found.noise))
        elif not found.is_different:
            results.kept |= dict.fromkeys(each.costs, "all values give the same code")
        else:
            results.take(found.values)
    progress("networks")
    _confirm(target, results, timer)
    kept = {name: reason for name, reason in results.kept.items() if name not in results.measured}
    return Measurement(processor(), target.name, threads, time.perf_counter() - start, results.measured, kept)


def _direct(
    measurement: direct.Measure,
    names: tuple[str, ...],
    target: Target,
    results: _Results,
    timer: Timer,
    is_late: bool,
) -> None:
    """Adds the costs of one measurement to the results."""
    if is_late:
        results.kept |= dict.fromkeys(names, LATE)
        return
    try:
        found = measurement(target, results.costs, timer)
    except Unmeasurable as reason:
        results.kept |= dict.fromkeys(names, str(reason))
        return
    for name, value in found.items():
        least, most = (FIELDS[name].metadata[key] for key in ("least", "most"))
        if value.noise > NOISE:
            results.kept[name] = _noise(value.noise)
        elif not least <= value.value <= most:
            results.kept[name] = f"{value.value:.3g} is not between {least} and {most}"
        else:
            results.take({name: round(value.value)})


def _confirm(target: Target, results: _Results, timer: Timer) -> None:
    """Removes the costs with which a network is slower. Costs that were found together are judged together."""
    together = [names for _, names in direct.MEASURES.values()] + [each.costs for each in searches(target)]
    for names in dict.fromkeys(together):
        values = {name: results.measured[name] for name in names if name in results.measured}
        if not any(value != getattr(target.costs, name) for name, value in values.items()):
            continue
        found = confirmed(values, target, timer)
        if found.noise > NOISE:
            reasons = dict.fromkeys(values, f"{_noise(found.noise)} where a network confirms it")
        elif found.ratio > 1 + max(LOSS, found.noise):
            reasons = {name: f"{value} makes a network {found.ratio - 1:.0%} slower" for name, value in values.items()}
        else:
            continue
        results.kept |= reasons
        for name in values:
            del results.measured[name]


def _noise(noise: float) -> str:
    return f"the times differ by {noise:.0%}"


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Runs the body with so many threads."""
    before = _native.num_threads()
    _native.set_num_threads(count)
    try:
        yield
    finally:
        _native.set_num_threads(before)
