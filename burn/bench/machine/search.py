"""Costs that are found by comparison: programs that were compiled with several values of a cost run interleaved.

A search changes one cost, or several that depend on each other. The default remains unless another value is faster by more
than the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from burn.bench.machine import programs
from burn.bench.machine.clock import Timed, Timer
from burn.codegen.cpu.costs import Costs
from burn.codegen.cpu.target import Target
from burn.runtime.artefact import Artefact

GAIN = 0.03
"""The fraction of the time that another value must save in the geometric mean."""

LAUNCHES = 12
"""Kernels of a program that shares launches with an awake worker. The first of them wakes it."""


@dataclass(frozen=True)
class Search:
    """programs: kernels that depend on the costs. candidates: values, each for all costs of the search. threads: number of
    threads that run them; None for all of the process."""

    subject: str
    programs: Sequence[programs.Make]
    candidates: Sequence[Mapping[str, int]]
    threads: int | None = 1

    @property
    def costs(self) -> tuple[str, ...]:
        """The names of the costs."""
        return tuple(self.candidates[0])


@dataclass(frozen=True)
class Found:
    """The fastest values, their time over the default's, and the noise. `is_different`: false if all values gave equal code."""

    values: Mapping[str, int]
    ratio: float
    noise: float
    is_different: bool


def search(subject: Search, target: Target, costs: Costs, timer: Timer) -> Found:
    """Compiles the programs with each candidate, and times those whose code differs."""
    default = {name: getattr(costs, name) for name in subject.costs}
    candidates = [default, *(each for each in subject.candidates if each != default)]
    ratios = [1.0] * len(candidates)
    noise, is_different = 0.0, False
    for make in subject.programs:
        built = [programs.compiled(make, target, replace(costs, **each)) for each in candidates]
        distinct = {bytes(artefact.code): artefact for artefact in built}
        if len(distinct) == 1:
            continue
        is_different = True
        times = _times(list(distinct.values()), timer)
        by_code: dict[bytes, Timed] = dict(zip(distinct, times, strict=True))
        base = by_code[bytes(built[0].code)]
        noise = max(noise, *(each.noise for each in times))
        for number, artefact in enumerate(built):
            ratios[number] *= by_code[bytes(artefact.code)].seconds / base.seconds
    ratios = [ratio ** (1 / len(subject.programs)) for ratio in ratios]
    best = min(range(len(ratios)), key=ratios.__getitem__)
    if ratios[best] > 1 - max(GAIN, noise):
        best = 0
    return Found(candidates[best], ratios[best], noise, is_different)


def _times(artefacts: Sequence[Artefact], timer: Timer) -> list[Timed]:
    """The time of each program, which is loaded twice: where its memory is placed may matter more than its code, and is noise."""
    times = timer.times([programs.loaded(artefact) for artefact in (*artefacts, *artefacts)])
    return [Timed.both(*pair) for pair in zip(times[: len(artefacts)], times[len(artefacts) :], strict=True)]


def _each(name: str, *values: int) -> list[dict[str, int]]:
    return [{name: value} for value in values]


def _thresholds(name: str, outputs: Callable[[int], int], target: Target, *values: int) -> Search:
    """Grouped convolutions of depths around the threshold."""
    lanes = target.lanes(4)
    layers = [programs.convolution(14, 4 * k, 4 * outputs(lanes), 4) for k in (2, 4, 8)]
    return Search("grouped convolutions", layers, _each(name, *values))


def _winograd(cost: str, layers: Sequence[tuple[int, int]], *values: int) -> Search:
    """3 x 3 convolutions of size x size pixels with so many channels, whose algorithm depends on the cost. They use all threads:
    a moved element is then often in the caches of another core than the one that reads it."""
    makes = [programs.convolution(size, channels, channels) for size, channels in layers]
    return Search("Winograd", makes, _each(cost, *values), None)


def searches(target: Target) -> Iterator[Search]:
    """The searches for a CPU, the most important first."""
    matmul, tall, long = (
        programs.matmul(192, 512, 768),
        programs.matmul(768, 1024, 768),
        programs.matmul(256, 4096, 256),
    )
    shapes = ((4, 8), (3, 8), (2, 8), (2, 12), (1, 12))
    tiles = [{"panel_vectors": vectors, "tile_rows": rows} for vectors, rows in shapes]
    yield Search("register tiles", [matmul, programs.matmul(50, 256, 512)], tiles)
    yield Search("second-level cache", [tall], _each("l2_block", *(kib << 10 for kib in (128, 256, 384, 768, 1536))))
    yield Search("depth of tiles", [long], _each("depth_part", 512, 1024, 2048, 4096))
    yield Search("unrolling", [matmul, programs.matmul(33, 256, 512)], _each("unroll", 2, 4, 8))
    read_once = [programs.matmul_of_inputs(rows, 2000, 2048) for rows in (1, 2, 6)]
    yield Search("rows read at a time", read_once, _each("streams", 4, 8, 16, 32))
    attention = programs.attention(4, 512, 64)
    yield Search("keys of attention", [attention], _each("attention_keys", 64, 128, 256, 512))
    yield Search("rows of attention", [attention], _each("attention_rows", 32, 64, 128))
    yield _thresholds("group_depth", lambda lanes: lanes, target, 0, 24, 40, 80)
    yield _thresholds("group_wide_depth", lambda lanes: 2 * lanes, target, 0, 24, 40, 80)
    layers = [programs.pointwise_convolution(28, 2 * threshold) for threshold in (52, 80, 112, 144)]
    yield Search("channels-first images", layers, _each("channels_first", 40, 64, 96, 128, 160))
    # images of more than any second-level cache, of whole vectors of channels
    layers = [programs.pointwise_convolution(160, channels, 4) for channels in (16, 32)]
    yield Search("channels-first images in memory", layers, _each("channels_first_moved", 0, 12, 24, 48, 96))
    few = [programs.weights_of_four_bits(rows, 512, 512) for rows in (4, 12, 24)]
    yield Search("rows as limbs", few, _each("limb_rows", 3, 8, 16, 32))
    short = [programs.launches(rows, LAUNCHES) for rows in (32, 64, 128, 256, 512)]
    yield Search("threads", short, _each("grain", *(1 << n for n in range(12, 18))), 2)
    cached, moved = ((28, 8), (40, 12), (40, 16), (28, 24), (28, 32)), ((172, 32), (144, 48), (124, 64))
    yield _winograd("winograd_cached", cached, 8, 10, 14, 20, 30, 48)
    yield _winograd("winograd_element", moved, 24, 40, 60, 80)
    yield _winograd("winograd_constant", ((7, 384), (8, 256), (10, 256), (12, 256)), 15, 21, 30, 40, 60)
    loops = [programs.elementwise(1 << 18, 1), programs.functions(1 << 16, 2)]
    yield Search("loops", loops, _each("chunk", 1024, 2048, 4096, 8192))
    if target.tiles:
        yield Search("depth of tile registers", [long], _each("amx_part", 384, 768, 1536))
        yield Search("rows of tile registers", [tall], _each("amx_block", *(kib << 10 for kib in (320, 640, 1280))))
        yield Search("space of tile registers", [matmul], _each("amx_space", 6, 8, 10, 14))
        narrow = [programs.matmul(rows, 256, 256) for rows in (40, 72, 100)]
        yield Search("fewest rows of tile registers", narrow, _each("amx_rows", 32, 64, 96, 128))


NETWORKS: Sequence[programs.Make] = (programs.network, programs.encoder)
"""Small models by which costs are confirmed."""

LOSS = 0.01
"""The fraction of time that a model may lose, beside the noise."""


def confirmed(values: Mapping[str, int], target: Target, timer: Timer) -> Found:
    """The networks' largest time with these costs over that with the target's, at least 1, and the noise. Networks with equal
    code are not timed."""
    ratio, noise, is_different = 1.0, 0.0, False
    for make in NETWORKS:
        before, after = (
            programs.compiled(make, target, each) for each in (target.costs, replace(target.costs, **values))
        )
        if bytes(before.code) == bytes(after.code):
            continue
        is_different = True
        default, changed = _times([before, after], timer)
        ratio = max(ratio, changed.seconds / default.seconds)
        noise = max(noise, default.noise, changed.noise)
    return Found(values, ratio, noise, is_different)
