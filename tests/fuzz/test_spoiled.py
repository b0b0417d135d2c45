"""Spoiled models, weight files and caches in every test run, in worker processes.

BURN_FUZZ_CASES says how many of each are spoiled instead, half of them by seeds that are new each time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.runner import Outcome, outcomes
from tests.fuzz.spoiled_caches import case as caches
from tests.fuzz.spoiled_models import case as models
from tests.fuzz.spoiled_weights import case as weights
from tests.fuzz.spoiled_weights.mutate import CALLS
from tests.importers.weights.checkpoints import END, zipped

FRESH = random.SystemRandom().randrange(1 << 40)


@pytest.mark.parametrize(
    ("case", "count", "seconds", "memory"),
    [
        (models.case, 150, models.SECONDS, models.MEMORY),
        (weights.case, 600, weights.SECONDS, weights.MEMORY),
        (caches.case, 160, caches.SECONDS, caches.MEMORY),
    ],
    ids=["models", "weights", "caches"],
)
def test_what_is_spoiled_is_read_or_refused(
    case: Callable[[int], Outcome], count: int, seconds: float, memory: int
) -> None:
    more = int(os.environ.get("BURN_FUZZ_CASES", "0"))
    seeds = [*range(1, 1 + (more // 2 or count)), *range(FRESH, FRESH + more - more // 2)]
    count = len(seeds)
    if case is models.case:
        models.models()  # before the workers are forked
    found = dict(outcomes(case, seeds, 2, seconds, ("burn.importers.onnx", "burn.compiler"), memory))
    failed = [f"--- seed {seed}: {o.kind}\n{o.detail}" for seed, o in sorted(found.items()) if o.failed]
    assert not failed, f"{len(failed)} of {count}\n" + "\n".join(failed[:10])
    refused = sum(outcome.kind == "refused" for outcome in found.values())
    assert count < 50 or count > refused > count // 5, "the changes are too weak, or too strong, to say anything"


def test_calls_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch that the seeds are read under."""
    monkeypatch.setattr(weights.weights, "read", lambda path: os.system("true"))
    assert weights.case(1).kind == "exception"
    monkeypatch.undo()
    path = zipped(tmp_path / "m.pt", b"\x80\x02" + CALLS[0] + b"(X\x04\0\0\0truetR" + END)
    with pytest.raises(weights.BurnError):
        weights.weights.read(path)
