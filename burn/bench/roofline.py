"""Roofline of this machine, and the fraction of it that a kernel reaches (Williams, Waterman and Patterson, "Roofline", 2009).

A kernel's time is bounded by its arithmetic at peak throughput, and by its traffic at the bandwidth of its memory.
That is a cache if all data fits. `measure` runs small programs for a third of a second on an otherwise idle
machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from burn.codegen.cpu.peaks import arithmetic, traffic
from burn.codegen.cpu.target import host_target
from burn.runtime import _native
from burn.runtime.artefact import Artefact, KernelInfo, Signature, Target
from burn.runtime.executable import Executable
from burn.runtime.host import features
from burn.runtime.profile import ProfileRow

TURNS = 5
ITERATIONS = 512
"""Of a thread: about ten milliseconds, long enough for every thread to be awake, short enough to fall between what else a machine
does."""

VISITED = 128 << 20
"""Bytes that a thread reads, in a level: for about as long."""

BEYOND = 256 << 20
"""Bytes that no cache holds, if it is not larger itself."""

PAGE = 4096


@dataclass(frozen=True)
class Level:
    """A cache of all threads together, or the memory: what it holds, in bytes, and gives or takes, in bytes a second."""

    name: str
    bytes: float
    rate: float


@dataclass(frozen=True)
class Roofline:
    """Multiplications and additions of float32 a second, by the way they are done, and the levels of memory, small ones first."""

    threads: int
    arithmetic: dict[str, float]
    levels: tuple[Level, ...]

    @property
    def flops(self) -> float:
        return max(self.arithmetic.values())

    def level(self, size: float) -> Level:
        """The smallest that holds so many bytes."""
        return next((level for level in self.levels if size <= level.bytes), self.levels[-1])

    def seconds(self, row: ProfileRow) -> float | None:
        """The least time of a kernel; None where what it does depends on sizes that only the run knew."""
        if row.flops is None or row.bytes is None or not row.calls:
            return None
        return max(row.flops / self.flops, row.bytes / self.level(row.bytes / row.calls).rate)

    def share(self, row: ProfileRow) -> float | None:
        """The fraction of the roofline that the kernel reaches: at most 1, except for data that caches keep between kernels."""
        least = self.seconds(row)
        return None if least is None or not row.seconds else least / row.seconds


def measure() -> Roofline:
    """With the threads that programs run on."""
    threads = _native.num_threads()
    return Roofline(threads, _arithmetic(threads), tuple(_levels(threads)))


def _arithmetic(threads: int) -> dict[str, float]:
    ways = arithmetic(host_target(features()), threads * ITERATIONS)
    return {way.name: way.flops / _best(program_of(way.code, 1))[0] for way in ways}


def _levels(threads: int) -> Iterator[Level]:
    second, third = _native.cache_bytes(2), _native.cache_bytes(3)
    sizes: list[tuple[str, int, float]] = [("the second cache", second // 2, second * threads)] if second else []
    if third > second * threads:
        sizes.append(("the third cache", third // 2 // threads, third))
    sizes.append(("memory", max(BEYOND, 2 * third) // threads, float("inf")))
    target = host_target(features())
    for name, chunk, holds in sizes:
        chunk = max(PAGE, chunk // PAGE * PAGE)
        times = max(1, VISITED // chunk)
        update, read = _best(program_of(traffic(target, threads, chunk, times), 2))
        moved = chunk * threads * times
        yield Level(name, holds, max(2 * moved / update, moved / read))


def program_of(code: bytes, kernels: int) -> Executable:
    """A program of `peaks.py`, which has no inputs."""
    host = host_target(features())
    infos = tuple(KernelInfo(f"peak{i}") for i in range(kernels))
    return Executable(
        Artefact(signature=Signature((), ()), target=Target(host.triple, host.features), code=code, kernels=infos)
    )


def _best(program: Executable) -> list[float]:
    """The least seconds of each kernel."""
    program()
    runs = [program.profile(repeat=1) for _ in range(TURNS)]
    return [min(run.rows[i].seconds for run in runs) for i in range(len(runs[0].rows))]
