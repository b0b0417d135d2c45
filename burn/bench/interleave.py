"""Times several engines in one process without letting one disturb another.

Engines alternate in blocks: `A A A  B B B  B B B  A A A ...`, with the order reversed every other round. So a temporary
slowdown of the machine affects all of them. Three rules keep a block clean:

- an engine's worker threads may spin for some milliseconds after its last run (ONNX Runtime's do by
  default), so each block first waits until the process is idle;
- the first run of a block, which wakes threads and fills caches, is made and not counted;
- the process is bound to as many CPUs as threads, for every engine.

The result is the median over all counted runs. The ratio of two engines is the median of their ratios by
round, which is robust to a slow minute. The load of other processes is measured, and a figure from a busy machine
is marked.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

IDLE_SHARE = 0.1  # of one CPU: below this the process counts as idle
IDLE_WINDOW = 0.005  # seconds
IDLE_LIMIT = 2.0  # seconds to wait for it
WARM_UP = 0.3  # seconds of runs before anything is counted
WARM_UP_RUNS = 2


@dataclass(frozen=True)
class Plan:
    """At least `runs` counted runs in `rounds` blocks, and blocks of `block` seconds at least. clock: of the runs;
    `time.process_time` counts CPU seconds of one thread, which other processes disturb less."""

    runs: int = 30
    rounds: int = 6
    block: float = 0.1
    longest: int = 400  # runs in one block
    clock: Callable[[], float] = time.perf_counter

    def runs_per_block(self, seconds: float) -> int:
        """`seconds` is what one run takes."""
        return min(self.longest, max(math.ceil(self.runs / self.rounds), math.ceil(self.block / max(seconds, 1e-7))))


@dataclass
class Timing:
    """The counted runs of one engine in seconds, one list a round."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def all(self) -> list[float]:
        return [seconds for one in self.rounds for seconds in one]

    @property
    def median(self) -> float:
        return statistics.median(self.all)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.all)
        return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]

    def ratio(self, reference: Timing) -> float:
        """Time of this one over time of `reference`: above 1 where this one is slower."""
        pairs = zip(self.rounds, reference.rounds, strict=True)
        return statistics.median(statistics.median(mine) / statistics.median(theirs) for mine, theirs in pairs)


@dataclass(frozen=True)
class Measured:
    timings: Mapping[str, Timing]
    others: float | None  # share of the machine that other processes took meanwhile; None where it cannot be known
    restless: bool  # an engine's threads were still busy when the next one's turn came


def interleave(engines: Mapping[str, Callable[[], object]], plan: Plan) -> Measured:
    """Time each of `engines`, a function that makes one inference, by name."""
    blocks = {name: plan.runs_per_block(warm_up(run)) for name, run in engines.items()}
    timings = {name: Timing() for name in engines}
    order, restless, busy = list(engines), False, _Busy()
    for _ in range(plan.rounds):
        for name in order:
            restless |= not settle()
            run = engines[name]
            run()
            timings[name].rounds.append([once(run, plan.clock) for _ in range(blocks[name])])
        order.reverse()
    return Measured(timings, busy.others(), restless)


def once(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one run."""
    start = clock()
    run()
    return clock() - start


def warm_up(run: Callable[[], object]) -> float:
    """Run until caches, thread pools and just-in-time compilers have settled; the fastest run's seconds."""
    end, fastest, done = time.perf_counter() + WARM_UP, math.inf, 0
    while done < WARM_UP_RUNS or time.perf_counter() < end:
        fastest = min(fastest, once(run))
        done += 1
    return fastest


def settle() -> bool:
    """Wait until no thread of this process computes; False if one still does after `IDLE_LIMIT`."""
    end = time.perf_counter() + IDLE_LIMIT
    while time.perf_counter() < end:
        wall, cpu = time.perf_counter(), time.process_time()
        time.sleep(IDLE_WINDOW)
        if time.process_time() - cpu < IDLE_SHARE * (time.perf_counter() - wall):
            return True
    return False


def bind(threads: int) -> int:
    """Bind this process to its first `threads` CPUs, so that every engine has the same ones; how many it has then."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    allowed = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, allowed)
    return len(allowed)


class _Busy:
    """How much CPU time the machine has spent and how much of it this process, since it was made."""

    def __init__(self) -> None:
        self.start = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        try:
            fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        total, idle = sum(fields), fields[3] + fields[4]
        return total / os.sysconf("SC_CLK_TCK"), idle / os.sysconf("SC_CLK_TCK"), time.process_time()

    def others(self) -> float | None:
        now = self._read()
        if self.start is None or now is None:
            return None
        total, idle, own = (after - before for before, after in zip(self.start, now, strict=True))
        return max(0.0, (total - idle - own) / total) if total > 0 else None
