"""Timing of calls on a GPU, alternating between burn and its peers, and tables of the results."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from burn.runtime.device import device

TURNS = 7
CALLS = 20

RATES = {"GB/s": 1e9, "TF/s": 1e12}


@dataclass(frozen=True)
class Goal:
    """The fraction of `wanted` that a row has reached, in units of `of`."""

    of: str
    reached: float
    wanted: float

    def __str__(self) -> str:
        return f"{self.reached:.2f} of {self.of} ({self.wanted:.2f} wanted{'' if self.reached >= self.wanted else ': SHORT'})"


@dataclass
class Row:
    """work: floating-point operations or bytes, in `unit`'s."""

    name: str
    burn: float
    peers: dict[str, float]
    work: float = 0.0
    unit: str = ""
    goals: list[Goal] = field(default_factory=list)

    def of_peers(self, of: str, wanted: float, *names: str) -> None:
        """How much faster than the fastest of the peers of these names burn is to be."""
        times = [t for name, t in self.peers.items() if name in names]
        self.goals.append(Goal(of, min(times) / self.burn, wanted))


def on_gpu(call: Callable[[], Any]) -> float:
    """Seconds a call, on the GPU's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / CALLS


def on_burns_gpu(call: Callable[[], Any]) -> float:
    """The same, on burn's own stream."""
    gpu = device("cuda").native
    start = gpu.mark()
    for _ in range(CALLS):
        call()
    return gpu.mark().since(start) / 1e9 / CALLS


def waited(call: Callable[[], Any]) -> float:
    """Seconds a call, until its results are there."""
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


Measure = Callable[[Callable[[], Any]], float]


def by_turns(calls: Mapping[str, Callable[[], Any]], measure: Measure, own: Measure) -> dict[str, float]:
    """own: how burn's calls are measured."""
    for call in calls.values():
        for _ in range(4):
            call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            found[name].append((own if name == "burn" else measure)(call))
    return {name: statistics.median(times) for name, times in found.items()}


def difference(got: Any, want: Any) -> float:
    """The largest, of the largest number; of several tensors, the worst one's."""
    pairs = zip(*((x if isinstance(x, (tuple, list)) else (x,)) for x in (got, want)), strict=True)
    return max(((x.float() - y.float()).abs().max() / y.float().abs().max()).item() for x, y in pairs)


def attempt(cases: Mapping[str, Callable[[], Row]], wanted: str) -> list[Row]:
    """The rows of the cases whose names match the pattern `wanted`. A failure is printed, and the other cases are still timed."""
    rows = []
    for name, case in cases.items():
        if re.search(wanted, name):
            try:
                rows.append(case())
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}"[:600], flush=True)
            else:
                print(f"{name}: {rows[-1].burn * 1e3:.4f} ms, {rows[-1].peers}", flush=True)
    return rows


def table(rows: list[Row]) -> str:
    names = ["", "burn", "torch", "torch.compile", "burn reaches", "faster than the better", "wanted"]
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    for row in rows:
        rate = f"{row.work / row.burn / RATES[row.unit]:.0f} {row.unit}" if row.unit else ""
        theirs = [
            min((t for n, t in row.peers.items() if n.startswith("torch") and n != "torch.compile"), default=None)
        ]
        theirs.append(row.peers.get("torch.compile"))
        times = ["" if t is None else f"{t * 1e3:.3f} ms" for t in (row.burn, *theirs)]
        better = f"{min(row.peers.values()) / row.burn:.2f} x" if row.peers else ""
        lines.append(f"| {' | '.join([row.name, *times, rate, better, '; '.join(map(str, row.goals))])} |")
    return "\n".join(lines)
