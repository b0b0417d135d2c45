"""Sweeps over seeds in worker processes: a crash or a hang fails one seed, and the run goes on. Enter at `main` from the shell,
at `check` and `sweep` from a test file. Programs are compiled as `compilation.py` says.

A case is a function of a seed that says how its program went (`Outcome`). It must be importable, since workers call it.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tests.fuzz import compilation
from tests.onnx_suite.pool import MEMORY, Died, Pool

ROUND = 100
"""Seeds that a worker takes before it is replaced: what a process keeps of every program does not pile up."""


@dataclass(frozen=True)
class Outcome:
    """How one program went. kind: "ok", "skipped" (nothing to compare), "refused" (burn said that it does not do this, where
    it may), or a failure. detail: what a person needs to see of it."""

    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("ok", "skipped", "refused")


Case = Callable[[int], Outcome]


def outcome_of(case: Case, seed: int) -> Outcome:
    """The outcome of a seed, with its autotuning and CPU."""
    with compilation.chosen(seed):
        return case(seed)


def outcomes(
    case: Case,
    seeds: Sequence[int],
    jobs: int,
    timeout: float,
    preload: Sequence[str] = ("burn",),
    memory: int = MEMORY,
) -> Iterator[tuple[int, Outcome]]:
    """(seed, outcome) as programs end. burn's disk cache is a temporary folder."""
    before = os.environ.get("BURN_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BURN_CACHE_DIR"] = folder
        try:
            for start in range(0, len(seeds), jobs * ROUND):
                part = seeds[start : start + jobs * ROUND]
                for index, answer in Pool(partial(outcome_of, case), jobs, timeout, preload, memory).run(part):
                    yield part[index], Outcome(answer.reason, answer.message) if isinstance(answer, Died) else answer
        finally:
            os.environ.pop("BURN_CACHE_DIR")
            if before is not None:
                os.environ["BURN_CACHE_DIR"] = before


# ---- for test files ----------------------------------------------------------------------------------------------------
def check(case: Case, seed: int) -> None:
    """Raises AssertionError with the details if the seed fails."""
    outcome = outcome_of(case, seed)
    assert not outcome.failed, f"seed {seed}: {outcome.kind}\n{outcome.detail}"


def sweep(case: Case, timeout: float = 120.0, preload: Sequence[str] = ("burn",)) -> Callable[[], None]:
    """A test of as many more seeds as BURN_SWEEP says, from BURN_SWEEP_SEED on (a new one by default), in worker processes."""
    import pytest

    @pytest.mark.skipif("BURN_SWEEP" not in os.environ, reason="BURN_SWEEP says how many")
    def test() -> None:
        first = first_seed(os.environ.get("BURN_SWEEP_SEED"))
        seeds = range(first, first + int(os.environ["BURN_SWEEP"]))
        found = outcomes(case, seeds, os.cpu_count() or 1, timeout, preload)
        failed = {seed: o for seed, o in found if o.failed}
        assert not failed, "\n".join(f"--- seed {seed}: {o.kind}\n{o.detail}" for seed, o in sorted(failed.items()))

    return test


def first_seed(given: str | int | None) -> int:
    """The given seed, or a fresh one."""
    return random.SystemRandom().randrange(1 << 40) if given is None else int(given)


# ---- for the shell -----------------------------------------------------------------------------------------------------
def addresses(device: str) -> int:
    """The limit on the addresses of a worker, in bytes; 0 is no limit. Drivers of GPUs reserve more than they use."""
    return 0 if device in ("cuda", "wgpu") else MEMORY


def main(
    case: Case,
    arguments: Sequence[str] | None = None,
    timeout: float = 120.0,
    memory: int = MEMORY,
    preload: Sequence[str] = ("burn",),
) -> int:
    """The command of a fuzzer: --count N --seed S -j JOBS, or --one SEED. Returns the exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog=f"python -m {case.__module__.rpartition('.')[0]}", allow_abbrev=False)
    parser.add_argument("--count", type=int, default=1000, help="programs (default 1000)")
    parser.add_argument("--seed", type=int, help="the first one's seed; a new one each time by default")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--timeout", type=float, default=timeout, help=f"seconds for a program (default {timeout:g})")
    parser.add_argument("--no-limit", action="store_true", help="of memory: sanitizers want all addresses")
    parser.add_argument("--one", type=int, metavar="SEED", help="one program, in this process")
    parser.add_argument("--refusals", action="store_true", help="print what was refused, too")
    options = parser.parse_args(arguments)
    if options.one is not None:
        outcome = outcome_of(case, options.one)
        print(outcome.kind, outcome.detail, sep="\n")
        return int(outcome.failed)
    first = first_seed(options.seed)
    seeds = range(first, first + options.count)
    print(f"seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    counts: Counter[str] = Counter()
    failing: list[int] = []
    start, last = time.monotonic(), ""
    limit = 0 if options.no_limit else memory
    for seed, outcome in outcomes(case, seeds, options.jobs, options.timeout, preload, limit):
        counts[outcome.kind] += 1
        last = outcome.detail
        if outcome.failed:
            failing.append(seed)
        if outcome.failed or (options.refusals and outcome.kind == "refused"):
            print(f"--- seed {seed}: {outcome.kind}\n{outcome.detail}", flush=True)
    table = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    print(f"{time.monotonic() - start:.0f} s: {table}")
    if failing:
        print("failing seeds:", *sorted(failing))
    if counts["skipped"] == sum(counts.values()) > 1:
        print("every program was skipped; the last one:", last)
        return 1
    return int(bool(failing))
