"""Models whose names are drawn from packages' lists, on a GPU: burn against PyTorch. Writes benchmarks/gpu_zoo.md.

    python benchmarks/gpu_zoo.py list --output benchmarks/zoo_models.json      # draws the names
    python benchmarks/gpu_zoo.py run --models benchmarks/zoo_models.json --results rows.jsonl --seconds 500
    python benchmarks/gpu_zoo.py run ... --setting 1,float16 --setting 32,bfloat16:10       # batch, precision; 10 models
    python benchmarks/gpu_zoo.py run ... --training             # steps of 15: --setting 32,bfloat16,training:15
    python benchmarks/gpu_zoo.py run ... --setting 32,float16,reduce-overhead,max-autotune,jax:6      # more engines
    python benchmarks/gpu_zoo.py run ... --setting 32,float16,torch.compile:30              # burn as its backend
    python benchmarks/gpu_zoo.py write --results rows.jsonl --output benchmarks/gpu_zoo.md

Needs a GPU, PyTorch, timm, torchvision and transformers; diffusers adds its models. Weights are random. Each model runs in a
process of its own. `--jobs` of them compile at once on each GPU; a training step counts as three. While one is timed, its GPU's
others are stopped, and no process compiles on its cores. A model that finds no memory runs again, alone on its GPU. Rows are
appended as they come, and a model that has a row in the file is not run again.

A time is that of a synchronised call on the host's clock, from device tensors to device tensors; figures are medians of
alternating calls. Calls through torch.compile have two more times: of a call among ten in a row by the GPU's clock, and the
host's. The latter ends when a call returns that an idle GPU gets.

The bound of a kernel is the larger of its bytes over the bandwidth of a copy and its operations over the rate of a large matmul.
The share of the roofline is the sum of the bounds over that of the times. The worst kernel is furthest above its bound.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.settings import Setting, kind_of

TIMEOUT = 280.0
STEPS = "32,bfloat16,training:15"


def run(args: argparse.Namespace) -> None:
    """Runs models until the time is over, and appends their rows to the results. Ends the program if there is no GPU."""
    from zoo.schedule import Schedule

    entries = json.loads(args.models.read_text())
    lines = args.results.read_text().splitlines() if args.results.exists() else []
    done = {_identity(row) for row in map(json.loads, lines)}
    work = [(entry, setting) for setting in args.setting for entry in setting.chosen(entries)]
    work = [(entry, setting) for entry, setting in work if _identity({**entry, **setting.row()}) not in done]
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # of each process
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes the GPU's memory
    gpus = args.gpus or visible_gpus()
    if not gpus:
        raise SystemExit("no GPU is visible")
    jobs = args.jobs or max(1, (os.cpu_count() or 2) * 3 // 4 // len(gpus))
    with args.results.open("a") as file:
        for row in Schedule(Path(__file__), jobs, args.seconds, args.timeout, gpus).rows(work):
            print(shown(row), flush=True)
            file.write(json.dumps(row) + "\n")
            file.flush()


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["list"], row["name"], *kind_of(row)


def visible_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES has them; all if it has none."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def shown(row: Mapping[str, Any]) -> str:
    times = " ".join(f"{name} {1e3 * s:.3f}" for name, s in row.get("seconds", {}).items())
    problems = "; ".join(f"{k}: {v}"[:160] for k, v in row.items() if k.endswith("failed"))
    kind = "training" if row["training"] else ""
    name = f"{row['list']} {row['name']} b{row['batch']} {row['dtype']} {row['through']} {kind}"
    return f"{name}: {times} differs {row.get('differs', 0):.1e} {row.get('differs later', 0):.1e} {problems}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="draws the names")
    listed.add_argument("--output", type=Path, required=True)
    one = commands.add_parser("one", help="times one model in this process, after a line of input")
    one.add_argument("entry", type=json.loads, help="from the names")
    one.add_argument("setting", type=Setting.argument)
    several = commands.add_parser("run", help="times the models")
    several.add_argument("--models", type=Path, required=True)
    several.add_argument("--results", type=Path, required=True)
    several.add_argument("--setting", type=Setting.argument, action="append", help="such as 32,float16 (the default)")
    several.add_argument("--training", action="store_true", help=f"the same as --setting {STEPS}")
    several.add_argument(
        "--gpus", type=lambda text: text.split(","), help="such as 0,1 (default: all that are visible)"
    )
    several.add_argument("--jobs", type=int, help="processes at a time on each GPU (default: 3 for 4 cores in all)")
    several.add_argument("--seconds", type=float, default=math.inf, help="the time for all models")
    several.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds for one model to compile")
    written = commands.add_parser("write", help="writes the page")
    written.add_argument("--results", type=Path, required=True)
    written.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    match args.command:
        case "list":
            from zoo.names import drawn_names

            args.output.write_text(json.dumps(drawn_names(), indent=1) + "\n")
        case "run":
            steps = [Setting.parse(STEPS)] * args.training
            args.setting = [*(args.setting or []), *steps] or [Setting()]
            run(args)
        case "one":
            from zoo.measured import one as row

            print(json.dumps(row(args.entry, args.setting)), flush=True)
        case "write":
            from zoo.tables import write

            write(args.results, args.output)


if __name__ == "__main__":
    main()
