"""Latency of single calls after a pause: a camera's frames, a server's requests.

Back-to-back runs find threads awake and caches filled. After a pause threads sleep, the scheduler chooses CPUs for them
again, and clocks are lower. The engines alternate by round. Each waits until the process is idle, then makes its calls after
each pause in turn.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from burn.bench.interleave import Timing, once, settle, warm_up

PAUSES = (0.0, 0.002, 0.010, 0.050, 0.200)  # seconds
CALLS = 120  # after each pause, at least
CALL_SECONDS = 4.0  # of pauses of one length in all rounds: longer pauses have fewer calls, and never under `FEWEST`
FEWEST = 20
ROUNDS = 4
BUSY = "busy"  # the neighbour that computes all the time

Run = Callable[[], object]


def after_pauses(
    engines: Mapping[str, Run], pauses: Sequence[float] = PAUSES, beside: Run | None = None
) -> dict[str, dict[float, Timing]]:
    """Engine -> pause in seconds -> the calls that followed such a pause.

    `beside` runs before each pause, so that its threads are in whatever state another engine leaves them.
    """
    timings = {name: {pause: Timing() for pause in pauses} for name in engines}
    order = list(engines)
    for run in engines.values():
        warm_up(run)
    for _ in range(ROUNDS):
        for name in order:
            settle()
            for pause in pauses:
                timings[name][pause].rounds.append(_calls(engines[name], pause, beside))
        order.reverse()
    return timings


def _calls(run: Run, pause: float, beside: Run | None) -> list[float]:
    calls = max(FEWEST, min(CALLS, round(CALL_SECONDS / pause))) if pause else CALLS
    run()
    seconds = []
    for _ in range(-(-calls // ROUNDS)):
        if beside is not None:
            beside()
        if pause:
            time.sleep(pause)
        seconds.append(once(run))
    return seconds


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """A process that computes without end on the CPUs of this one."""
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as neighbour:
        try:
            yield
        finally:
            neighbour.kill()
