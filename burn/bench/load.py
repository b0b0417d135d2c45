"""Load of other processes during a measurement."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

_BUSY = (0, 1, 2, 5, 6, 7)  # of /proc/stat's figures: user, nice, system, irq, softirq, steal


@dataclass
class Others:
    """The cores that other processes kept busy, on average, between `with` and its end; None where the system does not say, or
    not for so short a time."""

    cores: float | None = None
    _before: tuple[float, float, float] | None = field(default=None, repr=False)

    def __enter__(self) -> Others:
        self._before = _now()
        return self

    def __exit__(self, *error: object) -> None:
        after = _now()
        if self._before is None or after is None or after[2] - self._before[2] < _SHORT:
            return
        busy, own, seconds = (b - a for a, b in zip(self._before, after, strict=True))
        self.cores = max(0.0, (busy - own) / seconds)

    @property
    def disturb(self) -> bool:
        """They took so much that times are not those of an idle machine."""
        return self.cores is not None and self.cores > _SHARE * (os.cpu_count() or 1)


_SHORT = 0.1  # seconds; too short for the resolution of the system's clock ticks
_SHARE = 0.1  # of all cores


def _now() -> tuple[float, float, float] | None:
    """Seconds that all cores were busy, those of this process, and the time."""
    try:
        with open("/proc/stat") as file:
            figures = [int(text) for text in file.readline().split()[1:]]
        busy = sum(figures[i] for i in _BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    times = os.times()
    return busy, times.user + times.system, time.monotonic()
