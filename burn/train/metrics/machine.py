"""Measurements of the machine: examples per second, memory, load. Taken between steps, not in them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from burn.errors import BurnError, Problem
from burn.train.events import Better

SHORTEST = 0.2  # seconds over which a load is measured: the system counts a process's time in hundredths


class Gauge:
    """Base of measurements of the machine, taken after every step."""

    name: str = ""
    better: Better = "max"

    def read(self, examples: int, seconds: float) -> float:
        """The reading of a step that took so long for so many examples."""
        raise NotImplementedError(f"{type(self).__name__} has no reading")

    def of_epoch(self, mean: float, examples: int, seconds: float) -> float:
        """The value of an epoch, from the mean of its readings, its number of examples and its time."""
        return mean

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Throughput(Gauge):
    """Examples a second, with the time that was spent waiting for data."""

    def __init__(self, name: str = "examples/s") -> None:
        self.name = name

    def read(self, examples: int, seconds: float) -> float:
        return examples / seconds if seconds > 0 else 0.0

    def of_epoch(self, mean: float, examples: int, seconds: float) -> float:
        return self.read(examples, seconds)


class Memory(Gauge):
    """Memory of this process that is in use (resident), MiB."""

    better = "min"

    def __init__(self, name: str = "memory MiB") -> None:
        self.name = name
        self._resident = _resident_reader()

    def read(self, examples: int, seconds: float) -> float:
        return self._resident() / 2**20


class CpuLoad(Gauge):
    """How many of the machine's cores this process keeps busy, percent of all of them."""

    def __init__(self, name: str = "cpu %") -> None:
        self.name = name
        self._before = (time.perf_counter(), _process_seconds())
        self._last = 0.0

    def read(self, examples: int, seconds: float) -> float:
        now, before = (time.perf_counter(), _process_seconds()), self._before
        if now[0] - before[0] >= SHORTEST:
            self._last = 100.0 * (now[1] - before[1]) / (now[0] - before[0]) / (os.cpu_count() or 1)
            self._before = now
        return self._last


class GpuLoad(Gauge):
    """How busy a GPU is, percent, as NVIDIA's management library says (the package nvidia-ml-py). Raises BurnError where there
    is no GPU."""

    def __init__(self, index: int = 0, name: str = "gpu %") -> None:
        self.name = name
        try:
            import pynvml  # type: ignore[import-not-found]

            pynvml.nvmlInit()
            self._utilisation = pynvml.nvmlDeviceGetUtilizationRates
            self._handle: Any = pynvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:  # of the library that is not there, or of whatever kind it raises itself
            text = f"{type(error).__name__}: {error}"
            raise BurnError("GpuLoad finds no GPU", [Problem(text, hint="leave the metric out")]) from None

    def read(self, examples: int, seconds: float) -> float:
        return float(self._utilisation(self._handle).gpu)


def _process_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _resident_reader() -> Any:
    """A function that gives the bytes in use. Raises BurnError where neither the system nor psutil says."""
    if sys.platform == "linux":
        page = os.sysconf("SC_PAGE_SIZE")

        def read() -> int:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * page

        return read
    try:
        import psutil  # type: ignore[import-untyped]
    except ImportError:
        raise BurnError("Memory needs psutil on this system", ["pip install 'burn-mlir[train]'"]) from None
    return lambda: psutil.Process().memory_info().rss
