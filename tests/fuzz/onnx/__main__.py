"""`python -m tests.fuzz.onnx --count 20000 --seed 0 -j 16 --target avx2 --mode load`: many random graphs, and a
summary. `tests.fuzz.compilation` has the variables of the environment for autotuning."""

from __future__ import annotations

import argparse
import collections
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.fuzz import compilation

from .case import Outcome, Plan, run
from .many import SECONDS, outcomes
from .steps import STEPS
from .ways import WAYS

QUIET = ("same", "nothing")
JUDGED = ("theirs", "rounding")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.onnx", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many graphs")
    parser.add_argument("--seed", type=int, default=0, help="the first one's")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--target", help="avx512, avx2 or generic; this machine's by default")
    parser.add_argument("--mode", choices=sorted(WAYS), default="load")
    parser.add_argument("--threads", type=int, default=1, help="that a run may use")
    parser.add_argument("--steps", default="", help=f"only these, by commas: {', '.join(STEPS)}")
    parser.add_argument("--length", type=int, help="nodes of a graph")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one graph")
    parser.add_argument("--save", type=Path, help="a folder for the graphs that fail, cut down, with their inputs")
    parser.add_argument("--one", type=int, help="this seed alone, here")
    given = parser.parse_args()
    steps = frozenset(name for name in given.steps.split(",") if name)
    plan = Plan(given.mode, given.target, given.threads, steps, given.length, given.save)
    if given.one is not None:
        with compilation.chosen(given.one):
            show(run(given.one, plan))
        return 0
    start, counts, failed = time.perf_counter(), collections.Counter[str](), list[Outcome]()
    again: list[int] = []
    for outcome in outcomes(range(given.seed, given.seed + given.count), plan, given.jobs, given.seconds):
        if outcome.kind == "timeout":
            again.append(outcome.seed)
            continue
        counts[outcome.kind] += 1
        if outcome.kind not in QUIET:
            show(outcome)
        if outcome.kind not in (*QUIET, *JUDGED):
            failed.append(outcome)
    # It may have been cutting the graph down, or the machine was busy: once more, without that.
    for outcome in outcomes(again, replace(plan, shrink=False), max(1, given.jobs // 2), given.seconds):
        counts[outcome.kind] += 1
        if outcome.kind not in QUIET:
            show(outcome)
            failed.append(outcome)
    summary(counts, failed, time.perf_counter() - start)
    return 1 if failed else 0


def show(outcome: Outcome) -> None:
    print(f"{outcome.seed}: {outcome.kind}: {outcome.text}", flush=True)


def summary(counts: collections.Counter[str], failed: list[Outcome], seconds: float) -> None:
    print(
        f"\n{sum(counts.values())} graphs in {seconds:.0f} s: "
        + ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    )
    groups: dict[tuple[str, str], list[int]] = {}
    for outcome in failed:
        groups.setdefault((outcome.kind, outcome.ops or outcome.text[:80].replace("\n", " ")), []).append(outcome.seed)
    for (kind, what), seeds in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"  {len(seeds):4} {kind}: {what}: seeds {', '.join(map(str, sorted(seeds)[:12]))}")


if __name__ == "__main__":
    sys.exit(main())
