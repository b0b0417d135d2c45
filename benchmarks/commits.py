"""Times two checkouts of the project, interleaved, on the same models: is a later commit slower than an earlier one?

    git worktree add ../before COMMIT && make -C ../before develop
    python benchmarks/commits.py ../before --models "mnist minilm train:cnn" --threads 2 --json FIGURES.json

Each checkout runs in a process of its own, with its own interpreter (`.venv`, where it has one) and its own `burn`. The
processes take turns and only one of them runs at a time. `train:NAME` is a training step of `burn-bench train`. The table shows
medians, and the median over the rounds of the time after over the time before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parents[1]
MODELS = (
    "mnist magika silero_vad ultraface lstm mobilenet efficientnet yolo unet vit_tiny minilm gpt2_tiny seeded_resnet50 "
    "seeded_inception_v2 seeded_shufflenet seeded_squeezenet train:cnn train:gpt train:minilm train:resnet"
)
TRAINING = "train:"
WARM_UP_RUNS = 3


@dataclass(frozen=True)
class Plan:
    """Each round is one block of at least `seconds` and at least `runs` runs for each checkout."""

    rounds: int
    seconds: float
    runs: int = 3


@dataclass
class Figures:
    """Seconds of one run, a median for each round."""

    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.after, self.before, strict=True))


class Worker:
    """A checkout's process with one model, waiting for orders on its standard input."""

    def __init__(self, root: Path, job: str, threads: int) -> None:
        own = root / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "--worker", job, "--threads", str(threads), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._answer()  # the model is ready

    def seconds(self, plan: Plan) -> float:
        """The median run of a block."""
        _pipe(self._process.stdin).write(f"{plan.seconds} {plan.runs}\n")
        _pipe(self._process.stdin).flush()
        return float(self._answer())

    def _answer(self) -> str:
        line = _pipe(self._process.stdout).readline()
        if not line.startswith("="):
            raise RuntimeError(f"a checkout's process ended: {self._process.wait()}")
        return line[1:]

    def close(self) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def work(job: str, threads: int, root: Path) -> None:
    """The checkout's side: for every line "SECONDS RUNS" one block of runs, and "=MEDIAN" as the answer."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a model prints is no answer
    import burn

    assert Path(burn.__file__).is_relative_to(root), f"{burn.__file__} is not of {root}"
    run = _step(job.removeprefix(TRAINING), threads) if job.startswith(TRAINING) else _inference(Path(job), threads)
    for _ in range(WARM_UP_RUNS):
        run()
    print("=ready", file=answers)
    for line in sys.stdin:
        seconds, runs = line.split()
        times: list[float] = []
        end = time.perf_counter() + float(seconds)
        run()  # wakes threads and fills caches
        while len(times) < int(runs) or time.perf_counter() < end:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(f"={statistics.median(times)}", file=answers)


def _inference(folder: Path, threads: int) -> Any:
    import numpy as np

    import burn

    program = burn.load(folder / "model.onnx", threads=threads)
    with np.load(folder / "inputs.npz") as file:
        feeds = {name: file[name] for name in file.files}
    return lambda: program.run(feeds)


def _step(name: str, threads: int) -> Any:
    from burn.bench import training, twins

    return training.burn_step(twins.CASES[name], training.Setting(threads), None)


def prepared(name: str, folder: Path) -> str:
    """The input of a worker: the model and its inputs as files, or the name of a training step."""
    if name.startswith(TRAINING):
        return name
    import numpy as np

    from burn.bench.subject import find

    subject = find(name, {})
    (folder / "model.onnx").symlink_to(subject.path.resolve())
    np.savez(folder / "inputs.npz", **subject.feeds)
    return str(folder)


def compared(job: str, before: Path, threads: int, plan: Plan) -> Figures:
    """Interleaved blocks; every other round runs in reverse order."""
    workers = {"before": Worker(before, job, threads), "after": Worker(HERE, job, threads)}
    figures = Figures()
    for number in range(plan.rounds):
        for name in list(workers)[:: -1 if number % 2 else 1]:
            getattr(figures, name).append(workers[name].seconds(plan))
    for worker in workers.values():
        worker.close()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the earlier checkout, built")
    parser.add_argument("--models", default=MODELS, help=f"by default {MODELS}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a block, at least (default 0.4)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.threads, options.before)
        return 0
    plan, found = Plan(options.rounds, options.seconds), {}
    for name in options.models.split():
        with tempfile.TemporaryDirectory() as folder:
            try:
                job = prepared(name, Path(folder))
                figures = compared(job, options.before.resolve(), options.threads, plan)
            except Exception as error:  # the others are measured all the same
                print(f"{name:24} {type(error).__name__}: {error}", flush=True)
                continue
        found[name] = {"before": figures.before, "after": figures.after, "ratio": figures.ratio}
        medians = [statistics.median(each) * 1e3 for each in (figures.before, figures.after)]
        print(
            f"{name:24} before {medians[0]:9.3f} ms  after {medians[1]:9.3f} ms  ratio {figures.ratio:.3f}", flush=True
        )
        if options.json:
            options.json.write_text(json.dumps({"threads": options.threads, "models": found}, indent=1))
    if found:
        print(f"geometric mean of {len(found)}: {statistics.geometric_mean(f['ratio'] for f in found.values()):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
