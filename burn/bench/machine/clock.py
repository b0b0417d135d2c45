"""Times of programs that run interleaved, with their noise."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.runtime.executable import Executable

FEWEST, MOST = 8, 200
"""Rounds: runs of each program. Other work on the machine makes times longer, never shorter: the least counts."""

QUIET = 0.02
"""Noise at which no further round begins."""

LONG = 0.5
"""Seconds for each program after which no further round begins."""


class Unmeasurable(Exception):
    """A cost cannot be measured on this machine. The text is the reason."""


@dataclass(frozen=True)
class Timed:
    """The least seconds of a program. noise: the relative difference between the least of every second run and of the rest."""

    seconds: float
    noise: float

    @staticmethod
    def of(runs: Sequence[float]) -> Timed:
        """From the seconds of at least two runs."""
        first, second = min(runs[::2]), min(runs[1::2])
        least = min(first, second)
        return Timed(least, abs(first - second) / least if least > 0 else math.inf)

    def both(self, other: Timed) -> Timed:
        """The time of two programs with equal code. Their difference is noise."""
        least = min(self.seconds, other.seconds)
        apart = abs(self.seconds - other.seconds) / least if least > 0 else math.inf
        return Timed(least, max(self.noise, other.noise, apart))


@dataclass(frozen=True)
class Timer:
    """Runs programs in rounds until their times are quiet, or for LONG seconds each.

    longest: in place of LONG."""

    longest: float = LONG

    def times(self, programs: Sequence[Executable], kernel: int | None = None) -> list[Timed]:
        """The time of each program's kernels, or of the kernel with this number alone. All take the same inputs."""
        given = _inputs(programs[0])
        runs: list[list[float]] = [[] for _ in programs]
        start = time.perf_counter()
        for number in range(MOST):
            if number >= FEWEST:
                is_late = time.perf_counter() - start > self.longest * len(programs)
                if is_late or all(Timed.of(each).noise <= QUIET for each in runs):
                    break
            for program, found in zip(programs, runs, strict=True):
                rows = program.profile(*given).rows
                found.append(sum(row.seconds for row in rows) if kernel is None else rows[kernel].seconds)
        return [Timed.of(each) for each in runs]


def _inputs(program: Executable) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal([int(size) for size in spec.dims]).astype(np.float32) for spec in program.inputs]
