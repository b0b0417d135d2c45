"""`python -m tests.architectures`: runs architectures, drawn by a seed among all that the installed packages list.

    python -m tests.architectures --count 250            # the next 250 without results, each in its own process
    python -m tests.architectures --count 1000 -j 32     # 32 at a time
    python -m tests.architectures timm/resnet            # these
    python -m tests.architectures --list                 # the names
    python -m tests.architectures --table [--update]     # what the results say; --update writes docs/dev/architectures.md

With BURN_ARCHITECTURES_DEVICE=cuda the ways forward and backward run on the GPU.

Packages that are not installed are left out. Results are written as they come, by name and way, into a JSON-lines file,
so that a run that was ended goes on. A way that crashes, hangs or runs out of memory costs itself only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if os.environ.get("BURN_ARCHITECTURES_DEVICE", "cpu") == "cpu":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # every way runs on CPUs, in forked processes

from tests.architectures.apart import apart
from tests.architectures.drawn import PACKAGES, listed
from tests.architectures.table import table, update
from tests.architectures.tasks import Tasks
from tests.architectures.ways import DEVICE, ON_GPU, WAYS

RESULTS = Path("build/architectures.jsonl")
MEMORY = 32
TIMEOUT = 600.0


def read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(name, way) -> the last result."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(r["name"], r["way"]): r for r in map(json.loads, lines)}


def names(packages: list[str], seed: int) -> list[str]:
    """All that the packages list, in an order drawn by a seed."""
    found = [name for package in packages for name in listed(package)]
    random.Random(seed).shuffle(found)
    return found


def _drawn(packages: list[str], seed: int) -> list[str]:
    """`names`; for a GPU in a process of its own, because some packages start the driver, which does not outlast a fork."""
    if DEVICE == "cpu":
        return names(packages, seed)
    return next(apart(lambda send: send(names(packages, seed)), TIMEOUT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seed", type=int, default=29, help="of the order (default 29)")
    parser.add_argument("--package", choices=PACKAGES, action="append")
    parser.add_argument("--way", choices=tuple(WAYS), action="append")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help=f"seconds for a way (default {TIMEOUT:g})")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all; the next run goes on")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="architectures at a time, each on one thread")
    parser.add_argument(
        "--memory", type=float, default=MEMORY, help=f"GiB of addresses for a process (default {MEMORY})"
    )
    parser.add_argument("--again", choices=("ours", "torch's", "unmade"), help="what ended so is run again")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    results = read(options.results)
    if options.table or options.update:
        print(table(results))
        if options.update:
            update(results)
        return 0
    chosen = options.names or _drawn(options.package or list(PACKAGES), options.seed)
    if options.list:
        print(*chosen, sep="\n")
        return 0
    if options.again:
        wanted = {name for (name, _), r in results.items() if r["state"] == options.again}
        chosen = [name for name in chosen if name in wanted][: options.count or None]
    elif not options.names:
        done = {name for name, _ in results}
        chosen = [name for name in chosen if name not in done][: options.count]
    memory = int(options.memory * 2**30) if DEVICE == "cpu" else 0  # CUDA reserves all addresses that it may need
    tasks = Tasks(tuple(options.way or (WAYS if DEVICE == "cpu" else ON_GPU)), options.timeout, memory, options.seconds)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    for found in (tasks.run if DEVICE == "cpu" else tasks.run_in_workers)(chosen, options.jobs):
        failed += found.state == "ours"
        told = f"{found.name} {found.way}: {found.state} {found.detail[:200]} ({found.seconds:.0f} s)"
        print(told, flush=True)
        with options.results.open("a") as file:
            file.write(json.dumps(asdict(found)) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
