"""Costs that are computed from the times of programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from burn.bench.machine import programs
from burn.bench.machine.clock import Timed, Timer, Unmeasurable
from burn.bench.roofline import program_of
from burn.codegen.cpu import peaks
from burn.codegen.cpu.costs import Costs
from burn.codegen.cpu.target import Target


@dataclass(frozen=True)
class Value:
    """A cost as it was measured, with the relative noise of the times that it was computed from."""

    value: float
    noise: float


Measure = Callable[[Target, Costs, Timer], Mapping[str, Value]]

# ---- arithmetic ----------------------------------------------------------------------------------------------------------

CHAINS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
NEAR_PEAK = 0.95
"""The fraction of the largest throughput that enough chains reach."""

ITERATIONS = 16
"""Iterations of a kernel of chains: some hundred microseconds."""

CONSTANTS = 3
"""Vector registers that hold no chain."""


def chains(target: Target, costs: Costs, timer: Timer) -> Mapping[str, Value]:
    """The fewest accumulators that keep the multiply-add units busy."""
    counts = [count for count in CHAINS if count <= target.vector_registers - CONSTANTS]
    built = [peaks.chains(target, count, ITERATIONS) for count in counts]
    times = timer.times([program_of(each.code, 1) for each in built])
    rates = [each.flops / time.seconds for each, time in zip(built, times, strict=True)]
    enough = next(count for count, rate in zip(counts, rates, strict=True) if rate >= NEAR_PEAK * max(rates))
    return {"chains": Value(enough, _noise(times))}


CACHED_ELEMENTS = 4096
"""float32 elements whose loads and stores stay in the first-level cache."""


def expensive(target: Target, costs: Costs, timer: Timer) -> Mapping[str, Value]:
    """The time of an exponential over that of an operation in the programs by which the grain is found. There an operation
    takes three times as long as in a long body, because it is one of few between loads and stores."""

    def times(*makes: programs.Make) -> list[Timed]:
        return timer.times([programs.loaded(programs.compiled(make, target, costs)) for make in makes])

    (kernels,) = times(programs.launches(ROWS, LAUNCHES))
    few, many = times(programs.functions(CACHED_ELEMENTS, 1), programs.functions(CACHED_ELEMENTS, 5))
    operation = kernels.seconds / (ROWS * LAUNCHES * programs.LAUNCHED)
    function = (many.seconds - few.seconds) / (4 * CACHED_ELEMENTS)
    return {"expensive": Value(_ratio(function, operation), _noise([kernels, few, many]))}


ROWS, LAUNCHES = 64, 12
"""The size and number of kernels whose operations are timed."""


def _ratio(of: float, to: float) -> float:
    """Raises Unmeasurable if the clock is too coarse for the divisor."""
    if to <= 0:
        raise Unmeasurable("the times are too short for the clock")
    return of / to


def _noise(times: Sequence[Timed]) -> float:
    return max(each.noise for each in times)


MEASURES: Mapping[str, tuple[Measure, tuple[str, ...]]] = {
    "multiply-adds": (chains, ("chains",)),
    "expensive functions": (expensive, ("expensive",)),
}
"""Measurements by subject, each with its costs."""
