"""GPT-2 small on one GPU and on two by the engine "burn": tokens a second, losses, and a training that is killed and resumed.

    python benchmarks/distributed.py --out FILE.md

Each row is a process, or two, of its own (`--row`). All are compiled at once, then timed. The rows of one GPU run beside each
other, on different GPUs. A row with a batch of B trains on B x 1024 random tokens a step in bfloat16. The model and the tokens
are equal in all rows, so the losses of two GPUs with 8 rows each are compared with those of one GPU with 16. `--resumed` kills
a training on two GPUs, and resumes it on one and on two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn import nn, optim
from burn.data import Loader
from burn.distributed import processes
from burn.distributed.launch import launch
from burn.train import Keep
from burn.train.events import Control, Event, Stepped

LAYERS, WIDTH, HEADS, SYMBOLS, CONTEXT = 12, 768, 12, 50257, 1024
EACH = 8
"""Rows of a batch for each GPU."""


class GPT2(nn.Module):
    """GPT-2 small: 124 million parameters, the embedding is also the head."""

    def __init__(
        self, layers: int = LAYERS, width: int = WIDTH, symbols: int = SYMBOLS, context: int = CONTEXT
    ) -> None:
        self.embed, self.position = nn.Embedding(symbols, width), nn.LearnedPositions(context, width)
        self.body = nn.TransformerEncoder(
            width, max(1, width // 64), 4 * width, layers, dropout=0.0, activation="gelu", norm_first=True
        )
        self.norm = nn.LayerNorm(width)
        self.embed.weight.reset(nn.init.normal(0.0, 0.02))

    def forward(self, tokens: burn.Tensor) -> burn.Tensor:
        x = self.norm(self.body(self.position(self.embed(tokens)), causal=True))
        return x @ self.embed.weight.transpose(0, 1)


def loss(model: nn.Module, text: burn.Tensor) -> burn.Tensor:
    scores = model(text[:, :-1])
    return nn.CrossEntropyLoss()(scores.reshape(-1, scores.shape[-1]), text[:, 1:].reshape(-1))


def tokens(rows: int, batches: int, symbols: int = SYMBOLS, context: int = CONTEXT) -> np.ndarray:
    """[batches, rows, context + 1], of few different symbols, so that losses fall."""
    drawn = np.random.default_rng(0).integers(0, symbols, (batches, 16, context + 1), np.int32)
    return (drawn % 97)[:, :rows] if rows <= 16 else np.concatenate([drawn % 97] * (rows // 16), 1)


# ---- one row -----------------------------------------------------------------------------------------------------------
def measured(rows: int, steps: int, device: str | None, sharded: bool, small: bool) -> dict[str, Any]:
    """Losses of the first steps, then the time of `steps`. device: of a process alone; None: of a mesh."""
    sizes = {"layers": 2, "width": 128, "symbols": 512, "context": 64} if small else {}
    burn.manual_seed(0)
    model = GPT2(**sizes)
    optimizer = optim.AdamW(model, lr=3e-4, weight_decay=0.1)
    count = burn.distributed.count()
    mesh = (
        burn.Mesh({"data": count}, device="cuda", sharded_state="data" if sharded else None) if device is None else None
    )
    step = burn.train.step(model, loss, optimizer, precision="bfloat16", device=device, mesh=mesh)
    batches = tokens(rows, 4, sizes.get("symbols", SYMBOLS), sizes.get("context", CONTEXT))
    began = time.perf_counter()
    losses = [float(step(batches[0]))]
    compiled = time.perf_counter() - began
    losses += [float(step(batches[i % 4])) for i in range(1, 10)]
    _wait(device)
    began = time.perf_counter()
    for i in range(steps):
        last = step(batches[i % 4])
    losses.append(float(last))
    _wait(device)
    seconds = (time.perf_counter() - began) / steps
    found = {
        "rows": rows, "gpus": count if device is None else 1, "sharded": sharded, "compiled": compiled,
        "ms": 1e3 * seconds, "tokens": rows * (batches.shape[2] - 1) / seconds, "losses": losses,
    }  # fmt: skip
    if mesh is not None:
        found["communication"] = str(step.communication())
    return found


def _wait(device: str | None) -> None:
    from burn.runtime.device import device as as_device

    local = processes.local_rank() if device is None else 0
    as_device(device or f"cuda:{local}").wait()


# ---- killed and resumed --------------------------------------------------------------------------------------------------
class Text(burn.train.Experiment):
    """stops: rank 1 gets SIGKILL after so many steps. layers: of the model."""

    stops: int = 0
    layers: int = 2

    def learner(self) -> burn.train.Learner:
        model = GPT2(self.layers, 128, 512, 64)
        return burn.train.Learner(
            model,
            loss,
            optim.AdamW(model, lr=1e-3),
            precision="bfloat16",
            keep=Keep(last=3, every=4),
            observers=[self.stop],
        )

    def stop(self, event: Event, control: Control) -> None:
        if isinstance(event, Stepped) and event.step == self.stops and burn.distributed.rank() == 1:
            os.kill(os.getpid(), 9)

    def data(self) -> tuple[Loader, None]:
        return Loader((tokens(16, 8, 512, 64).reshape(128, 65),), 16, shuffle=True, seed=1), None

    def mesh(self) -> burn.Mesh | None:
        return burn.Mesh({"data": -1}, sharded_state="data") if burn.distributed.count() > 1 else None


def resumed(folder: Path) -> list[tuple[str, list[float]]]:
    """The losses of two epochs of eight steps: on one GPU, on two, and killed on two and resumed on one and on two."""

    def train(name: str, *options: str) -> None:
        command = [sys.executable, "-m", "burn.cli.main", "train", f"{__file__}:Text", "--dir", str(folder / name)]
        paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [*command, "--epochs", "2", "--show", "none", *options], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": paths}, timeout=120,
        )  # fmt: skip
        if done.returncode and "--set" not in options:
            print(done.stdout[-2000:], done.stderr[-4000:], flush=True)

    def losses(name: str) -> list[float]:
        path = folder / name / "log.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        found = {line["step"]: line["values"]["loss"] for line in lines if line["event"] == "step"}
        return [found[step] for step in sorted(found)]

    train("one", "--device", "cuda")
    train("two", "--devices", "2")
    for name, last in (("on one", ("--device", "cuda")), ("on two", ("--devices", "2"))):
        train(name, "--devices", "2", "--timeout", "10", "--set", "stops=6")
        print(f"killed, {name}: {len(losses(name))} steps were logged", flush=True)
        train(name, *last, "--resume", "--set", "stops=0")
    return [(name, losses(name)) for name in ("one", "two", "on one", "on two")]


# ---- the table -------------------------------------------------------------------------------------------------------------
def row(name: str, gpus: int, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--row", str(gpus), *options]
    print(f"{name}: {' '.join(options)}", flush=True)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(made: subprocess.Popen[str], seconds: float) -> dict[str, Any] | None:
    try:
        output, errors = made.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        made.kill()
        output, errors = made.communicate()
        errors += f"\n(no result within {seconds:g} s)"
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        print(output[-2000:], errors[-6000:], flush=True)
        return None
    found = json.loads(lines[-1])
    print({k: v for k, v in found.items() if k not in ("losses", "communication")}, found["losses"][:3], flush=True)
    return found


def table(steps: int, seconds: float, small: bool, resumes: bool) -> str:
    more = ["--small"] * small
    rows = {
        "one": (1, "--rows", str(EACH), "--device", "cuda:0", *more),
        "doubled": (1, "--rows", str(2 * EACH), "--device", "cuda:1", *more),
        "two": (2, "--rows", str(2 * EACH), *more),
        "sharded": (2, "--rows", str(2 * EACH), "--sharded", *more),
    }
    compiling = [row(f"{name}, compiled", *how, "--steps", "1") for name, how in rows.items()]
    for each in compiling:  # at once: programs go to the cache on disk
        result(each, seconds)
    beside = {name: row(name, *rows[name], "--steps", str(steps)) for name in ("one", "doubled")}
    found = {name: result(each, seconds) for name, each in beside.items()}
    for name in ("two", "sharded"):
        found[name] = result(row(name, *rows[name], "--steps", str(steps)), seconds)
    lines = ["| GPUs | batch | state | compiled in s | ms a step | tokens a second | of one GPU |"]
    lines.append("|---|---|---|---|---|---|---|")
    first, doubled = found["one"], found["doubled"]
    for each in filter(None, found.values()):
        share = f"{each['tokens'] / first['tokens']:.2f}" if first else ""
        state = "divided" if each["sharded"] else "whole"
        cells = [
            each["gpus"],
            each["rows"],
            state,
            f"{each['compiled']:.1f}",
            f"{each['ms']:.2f}",
            f"{each['tokens']:,.0f}",
            share,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for name in ("two", "sharded"):
        if doubled and (other := found[name]) is not None:
            apart = np.abs(np.subtract(other["losses"], doubled["losses"]))
            text = (
                f"Losses of {name} beside one GPU with the doubled batch: {apart.max():.1e} apart in {len(apart)} steps"
            )
            lines += ["", f"{text} ({doubled['losses'][0]:.5f} to {doubled['losses'][-1]:.5f})"]
    if found["two"]:
        lines += ["", "```text", found["two"]["communication"], "```"]
    if resumes:
        with tempfile.TemporaryDirectory() as folder:
            trained = dict(resumed(Path(folder)))
        lines += ["", "| training | steps | last loss | apart from one GPU |", "|---|---|---|---|"]
        for name, values in trained.items():
            alike = bool(values) and len(values) == len(trained["one"])
            apart = np.abs(np.subtract(values, trained["one"])).max() if alike else np.nan
            lines.append(f"| {name} | {len(values)} | {values[-1] if values else np.nan:.5f} | {apart:.1e} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--row", type=int, default=0, help="GPUs of one row, which is printed as JSON")
    parser.add_argument("--rows", type=int, default=EACH)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=120.0, help="of a row")
    parser.add_argument("--device")
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--small", action="store_true", help="a small model, to try the script")
    parser.add_argument("--resumed", action="store_true", help="also kill and resume")
    given = parser.parse_args()
    if given.row > 1 and not processes.is_launched():
        sys.exit(launch([sys.executable, *sys.argv], given.row, engine="burn", timeout=60.0))
    if given.row:
        if given.row > 1:
            burn.distributed.initialize(engine="burn")
        found = measured(given.rows, given.steps, given.device, given.sharded, given.small)
        if burn.distributed.rank() == 0:
            print(json.dumps(found), flush=True)
        return
    text = table(given.steps, given.seconds, given.small, given.resumed)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
