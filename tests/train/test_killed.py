"""A training that is killed at any moment and resumed ends with the bits of one that was not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.train import resuming

ROOT = Path(__file__).parents[2]


def _killed(folder: Path, kind: str, kills: int, seed: int) -> tuple[str, list[int]]:
    """The final state of a training that was killed so often, some steps apart; and the steps after which it was killed."""
    moments, after = random.Random(seed), []
    while True:
        command = [sys.executable, "-m", "tests.train.resuming", str(folder), kind]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None and child.stdout is not None
            left = moments.randint(4, 2 * resuming.STEPS // (kills + 4)) if len(after) < kills else -1
            last = ""
            for line in child.stdout:
                last = line.strip()
                left -= 1
                with suppress(BrokenPipeError):  # it was killed
                    child.stdin.write("\n")
                    child.stdin.flush()
                if left == 0:
                    time.sleep(moments.random() * 0.004)  # between steps, in one, or while a checkpoint is written
                    child.kill()
            if child.wait() == 0:
                return last, after
            after.append(int(last.split()[1]))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "kills"),
    [("loader", 2), *(pytest.param(k, n, marks=SLOW) for k, n in (("loader", 20), ("numpy", 20), ("workers", 8)))],
)
def test_killed_and_resumed(kind: str, kills: int, tmp_path: Path, own_cache: Path) -> None:
    undisturbed = resuming.train(None, kind)
    assert undisturbed.startswith(f"done {resuming.STEPS} ")
    ended, after = _killed(tmp_path / "run", kind, kills, seed=kills)
    assert len(after) == kills, after
    assert ended == undisturbed, after
