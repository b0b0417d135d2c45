"""Profiles: time, arithmetic and memory traffic by kernel, and a timeline."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burn.runtime import sizes
from burn.runtime.artefact import KernelInfo
from burn.runtime.files import save_text


@dataclass(frozen=True)
class ProfileRow:
    """One kernel's part of an inference. seconds: the median over the profile's inferences, with the least and the most. calls,
    flops and bytes are means."""

    kernel: KernelInfo
    calls: float
    seconds: float
    flops: float | None  # None where they depend on sizes that only the run knew
    bytes: float | None
    least: float = 0.0
    most: float = 0.0

    @property
    def gflops_per_second(self) -> float | None:
        return self.flops / self.seconds / 1e9 if self.flops is not None and self.seconds else None

    @property
    def gigabytes_per_second(self) -> float | None:
        return self.bytes / self.seconds / 1e9 if self.bytes is not None and self.seconds else None


@dataclass(frozen=True)
class Event:
    """A kernel in the last inference: when it began, in seconds since the inference did, and how long it took, by the clock of
    the device that ran it."""

    kernel: KernelInfo
    began: float
    seconds: float
    on_gpu: bool


@dataclass(frozen=True)
class Profile:
    """Rows in the kernels' order; those that never ran are left out. `events` of one inference, the first 100,000 at most, in the
    order in which they began. `symbols` are the sizes of the inputs. `runs` are the seconds of each inference: its kernels, and
    the time between them."""

    rows: tuple[ProfileRow, ...]
    inferences: int
    events: tuple[Event, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """Time in kernels, an inference."""
        return sum(row.seconds for row in self.rows)

    @property
    def run_seconds(self) -> float:
        """Time of an inference, while it was profiled: the median."""
        return _median(self.runs) if self.runs else 0.0

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline atomically for chrome://tracing and ui.perfetto.dev (complete events of the Trace Event Format,
        in microseconds), with a row for the host and one for the GPU."""
        found: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": name}}
            for row, name in enumerate(("host", "GPU"))
        ]
        for event in self.events:
            kernel = event.kernel
            found.append(
                {
                    "ph": "X",
                    "name": kernel.name,
                    "cat": kernel.kind,
                    "pid": 0,
                    "tid": int(event.on_gpu),
                    "ts": event.began * 1e6,
                    "dur": event.seconds * 1e6,
                    "args": {"nodes": list(kernel.sources), "flops": kernel.flops, "bytes": kernel.bytes},
                }
            )
        save_text(Path(path), json.dumps({"traceEvents": found, "displayTimeUnit": "ms"}))

    @staticmethod
    def of(
        kernels: Sequence[KernelInfo],
        runs: Sequence[Sequence[tuple[int, int]]],
        seconds: Sequence[float],
        symbols: Mapping[str, int],
        events: Sequence[tuple[int, int, int, bool]] = (),
    ) -> Profile:
        """A profile from (calls, nanoseconds) by inference and kernel, the seconds of each inference, and (kernel, start,
        nanoseconds, on a GPU) by event."""
        rows = []
        for number, kernel in enumerate(kernels):
            times = [run[number][1] / 1e9 for run in runs]
            each = sum(run[number][0] for run in runs) / max(len(runs), 1)
            if not each:
                continue
            flops, moved = (_evaluate(text, symbols) for text in (kernel.flops, kernel.bytes))
            rows.append(
                ProfileRow(
                    kernel,
                    each,
                    _median(times),
                    None if flops is None else flops * each,
                    None if moved is None else moved * each,
                    min(times),
                    max(times),
                )
            )
        found = (Event(kernels[k], began / 1e9, took / 1e9, on_gpu) for k, began, took, on_gpu in events)
        ordered = tuple(sorted(found, key=lambda event: event.began))
        return Profile(tuple(rows), len(runs), ordered, dict(symbols), tuple(seconds))


def _median(values: Sequence[float]) -> float:
    from statistics import median  # on demand: every process that runs a program imports this module

    return median(values)


def _evaluate(text: str, symbols: Mapping[str, int]) -> int | None:
    try:
        return sizes.parse(text).evaluate(symbols)
    except (KeyError, ZeroDivisionError):
        return None
