"""Costs that are computed from the times of programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from burn.bench.machine import programs
from burn.bench.machine.clock import Timed, Timer, Unmeasurable
from burn.bench.roofline import program_of
from burn.codegen.cpu import peaks
from burn.codegen.cpu.costs import FIELDS, Costs
from burn.codegen.cpu.target import Target
from burn.passes.winograd import TILE
from burn.passes.winograd_matrices import TAPS, transforms


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
    """The time of an exponential over that of a simple operation: differences of programs with more and fewer of each."""
    few, many, once, often = (
        programs.loaded(programs.compiled(make, target, costs))
        for make in (
            programs.elementwise(CACHED_ELEMENTS, 8),
            programs.elementwise(CACHED_ELEMENTS, 24),
            programs.functions(CACHED_ELEMENTS, 2),
            programs.functions(CACHED_ELEMENTS, 6),
        )
    )
    times = timer.times([few, many, once, often])
    simple = (times[1].seconds - times[0].seconds) / (2 * 16)
    function = (times[3].seconds - times[2].seconds) / 4 - 2 * simple
    return {"expensive": Value(_ratio(function, simple), _noise(times))}


# ---- Winograd ------------------------------------------------------------------------------------------------------------


POINTS = transforms(TILE).count ** 2
"""Points of a tile in the Winograd domain."""


@dataclass(frozen=True)
class Layer:
    """A convolution of one image of size x size pixels."""

    size: int
    inputs: int
    outputs: int

    @property
    def tiles(self) -> int:
        return math.ceil(self.size / TILE) ** 2

    @property
    def direct(self) -> int:
        """Multiplications and additions."""
        return 2 * TAPS**2 * self.size**2 * self.inputs * self.outputs

    @property
    def transformed(self) -> int:
        """The same in the Winograd domain."""
        return 2 * POINTS * self.tiles * self.inputs * self.outputs

    @property
    def elements(self) -> int:
        """Transformed elements of pixels and results."""
        return POINTS * self.tiles * (self.inputs + self.outputs)

    @property
    def taps(self) -> int:
        """Elements of the transformed filter."""
        return POINTS * self.inputs * self.outputs


CACHED, MOVED, CONSTANT = Layer(28, 32, 32), Layer(160, 48, 48), Layer(7, 384, 384)
"""Layers whose time in the Winograd domain is mostly that of elements in caches, in memory, and of the filter."""


def winograd(target: Target, costs: Costs, timer: Timer) -> Mapping[str, Value]:
    """The costs of moving elements, from the times of layers by both algorithms."""
    names = [name for name in FIELDS if name.startswith("winograd") and name != "winograd_cache"]
    never = replace(costs, **{name: FIELDS[name].metadata["most"] for name in names})
    always = replace(costs, **{name: FIELDS[name].metadata["least"] for name in names})

    def compared(layer: Layer) -> tuple[float, float]:
        """The time in the Winograd domain as a number of operations at the rate of the direct algorithm, and the noise."""
        make = programs.convolution(layer.size, layer.inputs, layer.outputs)
        built = [programs.loaded(programs.compiled(make, target, each)) for each in (never, always)]
        plain, transformed = timer.times(built)
        return _ratio(transformed.seconds * layer.direct, plain.seconds), _noise([plain, transformed])

    found: dict[str, Value] = {}
    for name, layer in (("winograd_cached", CACHED), ("winograd_element", MOVED)):
        operations, noise = compared(layer)
        found[name] = Value((operations - layer.transformed) / (2 * layer.elements), noise)
    operations, noise = compared(CONSTANT)
    moved = 2 * max(found["winograd_cached"].value, 1) * CONSTANT.elements
    found["winograd_constant"] = Value((operations - moved) / CONSTANT.taps, noise)
    return found


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
    "Winograd": (winograd, ("winograd_cached", "winograd_element", "winograd_constant")),
}
"""Measurements by subject, each with its costs."""
