"""Many seeds in worker processes: a crash or a hang is one failure, not the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from tests.fuzz import compilation
from tests.fuzz.runner import addresses
from tests.onnx_suite.pool import Died, Pool

from .case import Outcome, Plan, run

SECONDS = 240.0
BATCH = 500  # seeds before the workers are replaced: what a compiler leaks stays bounded


def outcomes(seeds: Sequence[int], plan: Plan, jobs: int, seconds: float = SECONDS) -> Iterator[Outcome]:
    """As they come."""
    for first in range(0, len(seeds), BATCH * jobs):
        batch = seeds[first : first + BATCH * jobs]
        pool: Pool[int, Outcome] = Pool(partial(_run, plan=plan), jobs, seconds, memory=addresses(plan.mode))
        for index, answer in pool.run(batch):
            if isinstance(answer, Died):
                theirs = answer.reason == "crash" and "onnxruntime" in answer.message
                yield Outcome(batch[index], "theirs" if theirs else answer.reason, answer.message)
            else:
                yield answer


def _run(seed: int, plan: Plan) -> Outcome:
    with compilation.chosen(seed):
        return run(seed, plan)
