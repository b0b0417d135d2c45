"""Peak memory of a process that loads an ONNX model and runs it once: burn with and without a filled cache, and ONNX Runtime.

    python benchmarks/memory.py zoo/*.onnx --output benchmarks/memory.md
    python benchmarks/memory.py --folder zoo --count 12 --seed 3

Each model has its inputs beside it (.npz), as `cpu_zoo.py prepare` writes them. Each figure is of a Python process of its own
(burn/bench/cold.py), which has no children. The peak is the system's own: the most bytes that were resident at once (VmHWM).
Pages of libraries and of the mapped model count. The anonymous part is sampled every 2 ms: memory that the system cannot drop.
CPU seconds are those of the whole process, so that they mean something on a machine that is not idle.

Python's bytecode is cached, as it is for an installed package: compiling the sources of a process takes memory and time. Each
engine's first process is not counted, because it writes the bytecode of the modules that it imports.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

import burn

PAUSE = 0.002
CASES = (("burn", "cold"), ("burn", "warm"), ("onnxruntime", "cold"))
"""Engines and caches, in the order of the columns. A warm process follows a cold one."""


@dataclass(frozen=True)
class Peak:
    """Of one process: bytes resident at most, anonymous ones among samples, and CPU seconds."""

    resident: int
    anonymous: int
    seconds: float


def anonymous(pid: int) -> int:
    """Anonymous bytes that are resident now; 0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/status").read_text().split("RssAnon:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 0


def environment(bytecode: str) -> dict[str, str]:
    """Of the processes, with a folder for bytecode unless there is one already."""
    given = {"PYTHONPYCACHEPREFIX": bytecode, **os.environ}
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    return given


def measured(
    engine: str, model: Path, feeds: dict[str, np.ndarray], threads: int, scratch: Path, variables: dict[str, str]
) -> Peak:
    """One process, with the cache in `scratch`. Raises RuntimeError with the last line of one that fails."""
    inputs = scratch / "inputs.npz"
    arrays = {f"input_{index}": array for index, array in enumerate(feeds.values())}
    np.savez(inputs, allow_pickle=False, **arrays)
    job = json.dumps([engine, str(model), threads, str(inputs), list(feeds), str(scratch)])
    with subprocess.Popen(
        [sys.executable, "-m", "burn.bench.cold", job],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**variables, "BURN_CACHE_DIR": str(scratch / "burn")},
    ) as process:  # fmt: skip
        most = 0
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            most = max(most, anonymous(process.pid))
            time.sleep(PAUSE)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{engine}, {model.name}: {errors.strip().splitlines()[-1:]}")
    return Peak(json.loads(output.splitlines()[-1])["peak"], most, usage.ru_utime + usage.ru_stime)


def row(model: Path, threads: int, variables: dict[str, str]) -> list[Peak]:
    """A peak for each of `CASES`."""
    with np.load(model.with_suffix(".npz")) as file:
        feeds = dict(file)
    with tempfile.TemporaryDirectory() as scratch:
        return [measured(engine, model, feeds, threads, Path(scratch), variables) for engine, _ in CASES]


def table(rows: dict[str, list[Peak]]) -> str:
    """The rows as Markdown, the largest share of ONNX Runtime's peak first."""
    names = [f"{engine} {case}" for engine, case in CASES]
    columns = ["model", *(f"{name} MB" for name in names), "cold / onnxruntime", "anonymous MB", "CPU s"]
    lines = [columns, ["---"] * len(columns)]
    for name, peaks in sorted(rows.items(), key=lambda item: -item[1][0].resident / item[1][-1].resident):
        lines.append(
            [
                name,
                *(f"{peak.resident / 1e6:.0f}" for peak in peaks),
                f"{peaks[0].resident / peaks[-1].resident:.2f}",
                " / ".join(f"{peak.anonymous / 1e6:.0f}" for peak in peaks),
                " / ".join(f"{peak.seconds:.2f}" for peak in peaks),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path, help="draws models from a folder")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a Markdown file")
    args = parser.parse_args()
    models = list(args.models)
    if args.folder is not None:
        drawn = sorted(path for path in args.folder.glob("*.onnx") if path.with_suffix(".npz").exists())
        models += random.Random(args.seed).sample(drawn, min(args.count, len(drawn)))
    rows: dict[str, list[Peak]] = {}
    with tempfile.TemporaryDirectory() as bytecode:
        variables = environment(bytecode)
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", Path(burn.__file__).parent], env=variables, check=True
        )
        for index, model in enumerate([*models[:1], *models]):
            try:
                peaks = row(model, args.threads, variables)
            except RuntimeError as error:
                print(error, flush=True)
                continue
            if not index:
                continue
            rows[model.stem] = peaks
            print(model.stem, " ".join(f"{peak.resident / 1e6:.0f}" for peak in peaks), flush=True)
    lower = sum(peaks[0].resident <= peaks[-1].resident for peaks in rows.values())
    text = (
        "# Peak memory of loading and one run\n\n"
        f"Written by `python benchmarks/memory.py` on {date.today()}. {lower} of {len(rows)} "
        "models take at most ONNX Runtime's memory with an empty cache. The last two columns have the figures of the three "
        "processes.\n\n"
    )
    print(text + table(rows))
    if args.output is not None:
        args.output.write_text(text + table(rows) + "\n")


if __name__ == "__main__":
    main()
