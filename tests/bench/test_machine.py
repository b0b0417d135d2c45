"""The measurement of a machine's costs: on made-up times, and once on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import pytest

from burn.bench.machine import direct, instructions, measure, programs, search
from burn.bench.machine.clock import Timed, Timer, Unmeasurable
from burn.bench.machine.direct import Value
from burn.bench.machine.search import Search
from burn.codegen.cpu import kernels
from burn.codegen.cpu.costs import FIELDS, Costs
from burn.codegen.cpu.heuristics import launches
from burn.codegen.cpu.target import TARGETS, Target, resolved
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import context
from burn.dialect.query import is_named
from burn.dialect.types import type_of
from burn.errors import CompileError
from burn.kernels.body import LoopKernel
from burn.passes.winograd import Winograd
from burn.runtime import _native
from burn.runtime.executable import Executable


@dataclass(frozen=True)
class MadeUp(Timer):
    """Seconds by position among the programs that are compared, each of them loaded so often; the noise of all."""

    seconds: Sequence[float] = (1.0,)
    noise: float = 0.0
    loaded: int = 2
    asked: list[int] = field(default_factory=list)

    def times(self, programs: Sequence[Executable], kernel: int | None = None) -> list[Timed]:
        self.asked.append(_native.num_threads())
        count = len(programs) // self.loaded
        return [Timed(self.seconds[number % count % len(self.seconds)], self.noise) for number in range(len(programs))]


def chunks(*values: int) -> Search:
    return Search("loops", [programs.elementwise(1 << 14, 1)], [{"chunk": value} for value in values])


@pytest.mark.parametrize(
    ("seconds", "noise", "chunk"),
    [
        ((1.0, 0.8, 0.9), 0.0, 1024),
        ((1.0, 0.9, 0.8), 0.0, 4096),
        ((1.0, 0.98, 1.2), 0.0, 2048),  # a gain of 2 % is none
        ((1.0, 0.92, 1.2), 0.09, 2048),  # nor one below the noise
        ((1.0, 0.90, 1.2), 0.09, 1024),
    ],
)
def test_the_fastest_value_is_taken_if_it_gains(seconds: Sequence[float], noise: float, chunk: int) -> None:
    target = resolved(None)
    found = search.search(chunks(1024, 2048, 4096), target, target.costs, MadeUp(seconds=seconds, noise=noise))
    assert found.values == {"chunk": chunk} and found.is_different and found.noise == noise


def test_equal_code_is_not_timed() -> None:
    target, timer = resolved(None), MadeUp()
    found = search.search(chunks(1 << 15, 1 << 16), target, Costs(chunk=1 << 14), timer)
    assert not found.is_different and not timer.asked and found.values == {"chunk": 1 << 14}


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves one measurement, one search of `chunk`, and a small program as the network."""
    monkeypatch.setattr(search, "NETWORKS", [programs.elementwise(1 << 14, 1)])

    def leave(found: Mapping[str, Value] | Unmeasurable) -> None:
        def measured(target: Target, costs: Costs, timer: Timer) -> Mapping[str, Value]:
            if isinstance(found, Unmeasurable):
                raise found
            return found

        def searches(target: Target) -> Iterator[Search]:
            yield chunks(1024, 2048, 4096)

        monkeypatch.setattr(direct, "MEASURES", {"threads": (measured, ("grain",))})
        monkeypatch.setattr(measure, "searches", searches)

    return leave


def test_a_measurement_has_values_and_reasons(only: Callable[..., None]) -> None:
    only({"grain": Value(30_000.4, 0.05)})
    timer, threads = MadeUp(seconds=(1.0, 0.5, 0.7)), _native.num_threads()
    found = measure.measure(resolved(None), timer=timer)
    assert found.measured == {"grain": 30_000, "chunk": 1024}
    assert timer.asked[0] == 1 and set(timer.asked[1:]) == {threads}  # a search, then networks
    assert set(found.kept) == set(FIELDS) - {"grain", "chunk"} and set(found.kept.values()) == {measure.NOT_MEASURED}
    assert _native.num_threads() == threads == found.threads


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"grain": Value(30_000, 0.3)}, "the times differ by 30%"),
        ({"grain": Value(-5, 0.0)}, "-5 is not between 256 and 16777216"),
        (Unmeasurable("the process has one thread"), "the process has one thread"),
    ],
)
def test_what_cannot_be_measured_keeps_its_default(
    only: Callable[..., None], given: Mapping[str, Value] | Unmeasurable, reason: str
) -> None:
    only(given)
    found = measure.measure(resolved(None), timer=MadeUp(noise=0.2))
    assert found.measured == {} and found.kept["grain"] == reason
    assert found.kept["chunk"] == "the times differ by 20%"


@dataclass(frozen=True)
class Slower(MadeUp):
    """The times of `MadeUp`, but of two networks that are compared the second takes `after` seconds."""

    after: float = 1.0
    network_noise: float = 0.0

    def times(self, programs: Sequence[Executable], kernel: int | None = None) -> list[Timed]:
        if len(programs) == 4:  # two programs, each loaded twice
            return [Timed(1.0, self.network_noise), Timed(self.after, self.network_noise)] * 2
        return super().times(programs, kernel)


@pytest.mark.parametrize(
    ("after", "noise", "reason"),
    [
        (1.2, 0.0, "makes a network 20% slower"),
        (1.2, 0.15, "the times differ by 15% where a network confirms it"),
        (1.05, 0.08, ""),  # within the noise
        (0.9, 0.0, ""),
    ],
)
def test_a_cost_is_kept_if_networks_are_no_slower(
    only: Callable[..., None], after: float, noise: float, reason: str
) -> None:
    only({"grain": Value(300_000, 0.0)})
    timer = Slower(seconds=(1.0, 1.0, 1.0), after=after, network_noise=noise)
    found = measure.measure(resolved(None), timer=timer)
    assert found.measured.get("grain") == (None if reason else 300_000)
    assert reason in found.kept.get("grain", "")


def test_launches_are_shared_with_an_awake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of the search for the grain have many kernels, and each candidate is another code."""
    target = resolved(None)
    (found,) = [each for each in search.searches(target) if each.costs == ("grain",)]
    assert found.threads == 2
    costs = [replace(target.costs, **each) for each in (found.candidates[0], found.candidates[-1])]
    low, high = (programs.compiled(found.programs[2], target, each) for each in costs)
    assert len(low.kernels) == search.LAUNCHES and bytes(low.code) != bytes(high.code)
    monkeypatch.setattr(direct, "MEASURES", {})
    monkeypatch.setattr(measure, "searches", lambda target: iter([found]))
    monkeypatch.setattr(_native, "num_threads", lambda: 1)
    assert measure.measure(target, timer=MadeUp()).kept["grain"] == "it needs 2 threads, and the process has 1"


def test_nothing_begins_without_time(only: Callable[..., None]) -> None:
    only({"grain": Value(30_000, 0.0)})
    timer = MadeUp()
    found = measure.measure(resolved(None), seconds=-1, timer=timer)
    assert (
        not found.measured and not timer.asked and {found.kept[name] for name in ("grain", "chunk")} == {measure.LATE}
    )


def test_chains_are_the_fewest_near_the_peak() -> None:
    """Each program does work in proportion to its chains; from 4 chains on, more take longer."""
    target = resolved(None)
    counts = [count for count in direct.CHAINS if count <= target.vector_registers - direct.CONSTANTS]
    timer = MadeUp(seconds=[max(1.0, count / 4) for count in counts], loaded=1)
    assert direct.chains(target, target.costs, timer) == {"chains": Value(4, 0.0)}


@pytest.mark.parametrize("cost", ["winograd_cached", "winograd_element", "winograd_constant"])
@pytest.mark.parametrize("name", ["avx512bf16", "avx2"])
def test_each_value_of_a_winograd_cost_changes_a_decision(cost: str, name: str) -> None:
    """Between two neighbouring candidates lies the cost from which a layer takes the other algorithm. All threads run them."""
    target = TARGETS[name]
    (found,) = [each for each in search.searches(target) if each.costs == (cost,)]
    assert found.threads is None
    layers = [_layer(make) for make in found.programs]
    decisions = [_decisions(layers, replace(target.costs, **each)) for each in found.candidates]
    assert all(before > after for before, after in pairwise(map(sum, decisions)))


def _layer(make: programs.Make) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of a convolution's weight and result."""
    program = make()
    with context():
        results = [result for each in program.block.operations for result in each.results]
        (op,) = (op for result in results if (op := is_named(result, "conv")) is not None)
        return cast(Any, type_of(op.weight).shape), cast(Any, type_of(op.operation.results[0]).shape)


def _decisions(layers: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], costs: Costs) -> list[bool]:
    by = Winograd(
        element=costs.winograd_element,
        cached=costs.winograd_cached,
        cache=costs.winograd_cache,
        constant=costs.winograd_constant,
    )
    return [by._pays(weight, y, "float32", constant=True) for weight, y in layers]


def test_an_exponential_is_counted_in_operations_of_short_kernels() -> None:
    """The programs by which the grain is found take one unit of time for each operation that the heuristics count."""
    target = resolved(None)
    operations = direct.ROWS * direct.LAUNCHES * programs.LAUNCHED
    per_element = 4 * direct.CACHED_ELEMENTS

    @dataclass(frozen=True)
    class Given(Timer):
        def times(self, programs: Sequence[Executable], kernel: int | None = None) -> list[Timed]:
            return [
                Timed(t, 0.01) for t in ([2.0 * operations] if len(programs) == 1 else [5.0, 5.0 + 26 * per_element])
            ]

    assert direct.expensive(target, target.costs, Given()) == {"expensive": Value(13.0, 0.01)}


def test_operations_of_short_kernels_are_those_of_the_heuristics(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def work(kernel: LoopKernel, lane: str, chunk: int | None, costs: Costs) -> Dim:
        counted.append(
            launches.work(kernel, lane, chunk, costs) * product([v.extent for v in kernel.parallel if v.name != lane])
        )
        return counted[-1]

    monkeypatch.setattr(kernels, "work", work)
    target = resolved(None)
    programs.compiled(programs.launches(5, 2), target, target.costs)
    assert counted == [5 * programs.LAUNCHED]  # the kernels share their code


def test_memory_is_noise() -> None:
    """Two loadings of a program differ only by where its memory is."""
    assert Timed(2.0, 0.1).both(Timed(3.0, 0.0)) == Timed(2.0, 0.5)
    assert Timed(2.0, 0.1).both(Timed(2.0, 0.3)) == Timed(2.0, 0.3)


def test_noise_is_the_difference_of_every_second_run() -> None:
    assert Timed.of([3.0, 2.0, 2.5, 2.2]) == Timed(2.0, 0.25)
    assert Timed.of([0.0, 0.0]).noise == float("inf")


# ---- counted instructions ----------------------------------------------------------------------------------------------

ASSEMBLY = """
kernel0:
\tmov x0, x1
.LBB0_1:
\tadd x2, x2, #1
.LBB0_2:                                // inner
\tfmla v0.4s, v1.4s, v2.4s
\t.loc 1 2
\tsubs x3, x3, #1                       // =1
\tb.ne .LBB0_2
\tcbnz x2, .LBB0_1
\tb .LBB0_9
.LBB0_3:
\tadd x4, x4, #1
\tadd x4, x4, #2
\tadd x4, x4, #3
\tcmp x4, x5
\tb.lt .LBB0_3
.LBB0_9:
\tret
"""


def test_the_hot_loop_is_the_innermost_with_multiply_adds() -> None:
    loop = instructions._hot_loop(ASSEMBLY)
    assert loop.split() == ["fmla", "v0.4s,", "v1.4s,", "v2.4s", "subs", "x3,", "x3,", "#1", "b.ne", ".LBB0_2"]
    assert instructions._hot_loop(ASSEMBLY.replace("fmla", "fmul")).count("add x4") == 3
    with pytest.raises(CompileError, match="no loop"):
        instructions._hot_loop("f:\n\tret\n")


def test_targets_without_models_are_refused() -> None:
    with pytest.raises(CompileError, match="costs of rvv cannot be counted"):
        instructions.measure(TARGETS["rvv"])


@pytest.mark.slow
def test_neon_is_counted() -> None:
    """The defaults are what LLVM's models give."""
    pytest.importorskip("ziglang")
    if shutil.which("llvm-mca") is None:
        pytest.skip("llvm-mca is not here")
    found, target = instructions.measure(TARGETS["neon"]), TARGETS["neon"]
    assert set(found.measured) == {"chains", "expensive", "panel_vectors", "tile_rows", "unroll"}
    assert found.measured["chains"] == 8 and abs(found.measured["expensive"] - target.costs.expensive) < 10
    assert Costs.of(found.measured) == found.measured
