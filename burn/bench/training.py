"""Alternating measurements of training steps: burn, torch, and torch.compile. A new engine is a row in `STEPPERS`.

All start with the same weights, use the same batch and AdamW, so equal losses show that they do the same
work. The memory of a step is measured in a separate process (`python -m burn.bench.training`).
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from burn.bench.cold import peak_memory
from burn.bench.interleave import Plan, Timing, interleave
from burn.bench.twins import CASES, GPU_CASES, Case, Kit
from burn.errors import BurnError
from burn.runtime.device import device

RATE = 1e-4
COMPARED = 5
"""Steps whose losses are compared; the last one's is that of parameters that have moved."""
CLOSE = {"float32": 1e-3, "bfloat16": 2e-2, "float16": 2e-2}
"""Tolerance of losses, absolute and relative, by the precision of matmuls.

float32 needs 1e-3 because of ReLU: an operand near 0 that rounds to the other sign has another gradient, and AdamW follows its
sign. If parameters of ResNet-18 change by half a unit in the last digit, torch's fifth loss moves by up to 2e-3. With SiLU
instead, the losses of burn and torch are within 3e-6 of those of float64."""
BUSY = 0.05
"""Share of the machine from which other processes are mentioned."""


@dataclass(frozen=True)
class Setting:
    """Settings of steps: number of threads, device, and precision of matmuls."""

    threads: int
    device: str = "cpu"
    precision: str = "float32"

    @property
    def is_host(self) -> bool:
        """True if steps compute in host memory. Raises DeviceError for an unknown device."""
        return device(self.device).memory.is_host

    @property
    def text(self) -> str:
        where = f"{self.threads} thread{'s' * (self.threads > 1)}" if self.is_host else self.device
        return where if self.precision == "float32" else f"{where}, {self.precision}"


Weights = Mapping[str, np.ndarray]
Stepper = Callable[[Case, Setting, Weights | None], Callable[[], float]]
"""Makes a case's step, a function that returns its loss. Weights by name; None: random ones."""


def burn_step(case: Case, setting: Setting, weights: Weights | None) -> Callable[[], float]:
    import burn

    burn.set_num_threads(setting.threads)
    model = case.build(burn_kit())
    if weights is not None:
        model.load_state_dict(weights)
    optimizer = burn.optim.AdamW(model, lr=RATE)
    step = burn.train.step(model, _burn_loss, optimizer, precision=setting.precision, device=setting.device)
    x, y = case.batch()
    if not setting.is_host:
        x, y = (burn.tensor(array).to(setting.device) for array in (x, y))
    return lambda: float(step(x, y))


def burn_kit() -> Kit:
    import burn
    from burn import nn, ops

    return Kit(
        nn,
        lambda q, k, v, causal: ops.attention(q, k, v, scale=q.shape[-1] ** -0.5, causal=causal),
        burn.gelu,
        burn.relu,
    )


def _burn_loss(model: Any, x: Any, y: Any) -> Any:
    from burn import nn

    return nn.CrossEntropyLoss()(model(x), y.reshape(-1))


def torch_step(case: Case, setting: Setting, weights: Weights | None, compiled: bool = False) -> Callable[[], float]:
    import torch
    from torch.nn import functional

    torch.set_num_threads(setting.threads)
    half = None if setting.precision == "float32" else getattr(torch, setting.precision)

    def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    model = case.build(Kit(torch.nn, attention, functional.gelu, torch.relu))
    if weights is not None:
        model.load_state_dict({name: torch.tensor(array) for name, array in weights.items()}, strict=False)
    model.to(setting.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    x, y = (torch.from_numpy(array).to(setting.device) for array in case.batch())
    y = y.reshape(-1)
    called: Any = torch.compile(model) if compiled else model

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast(setting.device.partition(":")[0], half, enabled=half is not None):
            scores = called(x)
        loss = functional.cross_entropy(scores.float(), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


STEPPERS: dict[str, Stepper] = {
    "burn": burn_step,
    "torch": torch_step,
    "torch.compile": lambda case, setting, weights: torch_step(case, setting, weights, compiled=True),
}


@dataclass(frozen=True)
class Trained:
    """Results of a case. For each stepper: times, losses of the first steps, and peak bytes if measured (see `main`); and the
    load of other processes."""

    name: str
    timings: Mapping[str, Timing]
    losses: Mapping[str, list[float]]
    peaks: Mapping[str, int]
    others: float | None

    def ratio(self, peer: str) -> float:
        """The peer's time over that of the first one."""
        return self.timings[peer].ratio(next(iter(self.timings.values())))

    def as_json(self) -> dict[str, Any]:
        """In seconds and bytes."""
        rows = {
            peer: {
                "median": timing.median,
                "ratio": self.ratio(peer),
                "losses": self.losses[peer],
                "peak": self.peaks.get(peer),
            }
            for peer, timing in self.timings.items()
        }
        return {"model": self.name, "others": self.others, "engines": rows}


def measure(name: str, steppers: list[str], setting: Setting, plan: Plan, memory: bool) -> Trained:
    """memory: also what a step takes of the host's. Raises BurnError where losses differ: then it is not the same work."""
    case = {**CASES, **GPU_CASES}[name]
    weights = _weights(case)
    steps = {stepper: STEPPERS[stepper](case, setting, weights) for stepper in steppers}
    close = CLOSE[setting.precision]
    losses = {stepper: [step() for _ in range(COMPARED)] for stepper, step in steps.items()}
    first = losses[steppers[0]]
    wrong = [f"{s}: {theirs}" for s, theirs in losses.items() if not np.allclose(theirs, first, rtol=close, atol=close)]
    if wrong:
        raise BurnError(f"{name}: the losses differ", [f"{steppers[0]}: {first}", *wrong])
    measured = interleave(steps, plan)
    peaks = {stepper: _peak(name, stepper, setting.threads) for stepper in steppers} if memory else {}
    return Trained(name, measured.timings, losses, peaks, measured.others)


def _weights(case: Case) -> Weights:
    import burn

    burn.manual_seed(0)
    return case.build(burn_kit()).state_dict()


def show_trained(console: Console, results: Sequence[Trained], setting: Setting) -> None:
    """A table: time, ratio and memory of each, and a loss, which tells that they do the same."""
    title = f"One training step, AdamW, {setting.text}; ratio to the time of the first"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("model", "engine", "median ms", "ratio", "peak MB", f"loss of step {COMPARED}"):
        table.add_column(heading, justify="left" if heading in ("model", "engine") else "right", no_wrap=True)
    for result in results:
        for number, (peer, timing) in enumerate(result.timings.items()):
            peak = f"{result.peaks[peer] / 1e6:.0f}" if peer in result.peaks else ""
            ms, ratio, loss = (
                f"{1e3 * timing.median:.1f}",
                f"{result.ratio(peer):.2f}",
                f"{result.losses[peer][-1]:.5f}",
            )
            table.add_row("" if number else result.name, peer, ms, ratio, peak, loss)
        table.add_section()
    console.print(table)
    busy = [f"{r.name} {r.others:.0%}" for r in results if r.others is not None and r.others > BUSY]
    if busy:
        console.print(f"other processes used the machine meanwhile: {', '.join(busy)}")


# ---- memory ------------------------------------------------------------------------------------------------------------
def _peak(name: str, stepper: str, threads: int) -> int:
    """Of a second process, which finds in the engine's cache what the first one compiled: what compilers leave in the heap is
    no part of a step."""
    return [_child(name, stepper, threads) for _ in range(2)][-1]


def _child(name: str, stepper: str, threads: int) -> int:
    child = subprocess.run(
        [sys.executable, "-m", "burn.bench.training", json.dumps([name, stepper, threads])],
        capture_output=True,
        text=True,
    )
    if child.returncode:
        lines = child.stderr.strip().splitlines()
        raise BurnError(f"{stepper} failed in a fresh process", [lines[-1] if lines else f"status {child.returncode}"])
    return json.loads(child.stdout.splitlines()[-1])


def main(job: str) -> None:
    """The child process: measures the peak private memory while steps run, minus the memory before them.

    Pages of mapped files, mainly code of libraries, do not count: they are shared and reclaimable,
    and their number depends on which engine compiles in this process."""
    name, stepper, threads = json.loads(job)
    import burn.compiler  # load code first, so that it does not count
    import burn.nn
    import burn.optim
    import burn.train  # noqa: F401

    if stepper != "burn":
        import torch._dynamo
        import torch.nn.functional  # noqa: F401
    before = _own()
    step = STEPPERS[stepper](CASES[name], Setting(threads), None)
    step()
    step()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # what was compiled is behind: the peak counts from here
    for _ in range(3):
        step()
    print(peak_memory() - _mapped() - before)


def _own() -> int:
    """Bytes resident that are no file's."""
    return _pages(1) - _mapped()


def _mapped() -> int:
    return _pages(2)


def _pages(field: int) -> int:
    """Bytes by a field of /proc/self/statm: 1 is what is resident, 2 what of it belongs to files."""
    return int(Path("/proc/self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1])
