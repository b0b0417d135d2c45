"""Cold start: the time from a process's start to its first result, and its peak memory.

Each figure comes from child processes that do nothing else. There are two cases: an empty cache of compiled models, and
a cache filled by an earlier process. The child (`python -m burn.bench.cold`) records the time of its
first result; the monotonic clock is the same in all processes of a machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from burn.bench.peers import PEERS
from burn.bench.subject import Subject
from burn.errors import BurnError


@dataclass(frozen=True)
class Cold:
    """Medians over the child processes of one engine."""

    empty: float  # seconds from process start to the first result, cache empty
    warm: float  # the same, cache warm
    peak: int  # bytes resident at most, cache empty
    peak_warm: int


def measure(peer: str, subject: Subject, threads: int, repeats: int = 3) -> Cold:
    """Start `2 * repeats` processes one after the other."""
    with tempfile.TemporaryDirectory() as scratch:
        feeds = Path(scratch) / "feeds.npz"
        arrays = {f"input_{index}": array for index, array in enumerate(subject.feeds.values())}
        np.savez(feeds, allow_pickle=False, **arrays)
        names = list(subject.feeds)
        empty, warm = [], []
        for repeat in range(repeats):
            cache = Path(scratch) / f"cache{repeat}"
            cache.mkdir()
            empty.append(_child(peer, subject, threads, feeds, names, cache))
            warm.append(_child(peer, subject, threads, feeds, names, cache))
    return Cold(
        statistics.median(seconds for seconds, _ in empty),
        statistics.median(seconds for seconds, _ in warm),
        round(statistics.median(peak for _, peak in empty)),
        round(statistics.median(peak for _, peak in warm)),
    )


def _child(peer: str, subject: Subject, threads: int, feeds: Path, names: list[str], cache: Path) -> tuple[float, int]:
    job = json.dumps([peer, str(subject.path), threads, str(feeds), names, str(cache)])
    start = time.monotonic()
    child = subprocess.run(
        [sys.executable, "-m", "burn.bench.cold", job],
        capture_output=True,
        text=True,
        env={**os.environ, "BURN_CACHE_DIR": str(cache)},
    )
    if child.returncode:
        lines = child.stderr.strip().splitlines()
        raise BurnError(f"{peer} failed in a fresh process", [lines[-1] if lines else f"status {child.returncode}"])
    result = json.loads(child.stdout.splitlines()[-1])
    return result["first"] - start, result["peak"]


def main(job: str) -> None:
    """The child: load, run once, say when and how large."""
    peer, path, threads, file, names, cache = json.loads(job)
    with np.load(file) as arrays:
        feeds = {name: arrays[f"input_{index}"] for index, name in enumerate(names)}
    run = PEERS[peer].load(Subject(Path(path).name, Path(path), feeds, {}), threads, Path(cache))
    run(feeds)
    print(json.dumps({"first": time.monotonic(), "peak": peak_memory()}))


def peak_memory() -> int:
    """The most bytes that were resident at once.

    Linux keeps it as VmHWM. getrusage's ru_maxrss will not do there: it survives exec, so a child would report its
    parent's peak if that was larger.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main(sys.argv[1])
