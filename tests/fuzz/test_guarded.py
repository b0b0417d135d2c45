"""Kernels stay within their buffers: BURN_GUARD puts a page without access directly behind each buffer, or before it.

Every run takes a few programs. BURN_SWEEP=3000 adds so many in worker processes, from BURN_SWEEP_SEED on (a new one by
default)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Value
from burn.dialect.dims import Dim
from burn.kernels.body import Load, Scalar
from tests.fuzz.guarded.case import case
from tests.fuzz.runner import check

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="faults are looked for in forked processes")

ENDS = ("end", "start")
EVERY_RUN = {"end": (114, 1187), "start": (3, 52, 114)}
"""Seeds. 1187 is an attention whose values have one vector of columns, where two are computed together. 114
gathers columns of a padded tensor."""


def _python(*arguments: str, guard: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, own = [sys.executable, *arguments], {"BURN_GUARD": guard, "BURN_NUM_THREADS": "2"}
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | own | environment, check=False)


def test_another_word_is_refused() -> None:
    ended = _python("-c", "import burn; burn.num_threads()", guard="both")
    assert ended.returncode and "BURN_GUARD" in ended.stderr


@pytest.mark.parametrize("end", ENDS)
def test_kernels_stay_within_buffers(end: str) -> None:
    """First, that an access of one element more does not go unnoticed."""
    ended = _python("-m", __spec__.name, guard=end)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif("BURN_SWEEP" not in os.environ, reason="BURN_SWEEP says how many")
@pytest.mark.parametrize("end", ENDS)
def test_more_programs(end: str) -> None:
    options = [
        "--count",
        os.environ["BURN_SWEEP"],
        *(["--seed", s] if (s := os.environ.get("BURN_SWEEP_SEED")) else []),
    ]
    ended = _python("-m", "tests.fuzz.guarded", *options, guard=end)
    assert ended.returncode == 0, ended.stdout + ended.stderr


# ---- in a process with guards ------------------------------------------------------------------------------------------
WEIGHT = np.ones((3, 7), np.float32)
PROGRAMS: dict[str, tuple[Callable[..., burn.Tensor], bool]] = {
    "input": (lambda x: ops.exp(x), True),
    "output": (lambda x: ops.exp(x), False),
    "constant": (lambda x: ops.mul(ops.exp(ops.mul(0.0, x[:, :1])), burn.tensor(WEIGHT)), True),
    "planned buffer": (lambda x: burn.sort(ops.exp(x)), False),
}
"""For each kind of buffer a function whose kernel reads it (or writes it)."""


def _strays(function: Callable[..., burn.Tensor], reads: bool, by: int) -> None:
    """Runs a function whose kernels read (or write) `by` elements away from where they should."""
    load, store = ScalarEmitter._load, ScalarEmitter.store

    def shifted_load(self: ScalarEmitter, node: Load) -> Value:
        return load(self, replace(node, offset=node.offset + by))

    def shifted_store(self: ScalarEmitter, buffer: int, offset: Dim, node: Scalar) -> None:
        store(self, buffer, offset + by, node)

    if reads:
        ScalarEmitter._load = shifted_load
    else:
        ScalarEmitter.store = shifted_store
    burn.compile(function, [WEIGHT], cache=False)(WEIGHT)


def _status(run: Callable[[], None]) -> int:
    """The signal that ends a forked process, 0 for none."""
    if child := os.fork():
        return os.waitpid(child, 0)[1] & 0x7F
    run()
    os._exit(0)


def _main() -> None:
    end = os.environ["BURN_GUARD"]
    for name, (function, reads) in list(PROGRAMS.items())[: None if end == "end" else 2]:
        ended = _status(partial(_strays, function, reads, 1 if end == "end" else -1))
        assert ended in (signal.SIGSEGV, signal.SIGBUS), f"an access outside of an {name} goes unnoticed"
    assert _status(partial(_strays, *PROGRAMS["input"], 0)) == 0
    for seed in EVERY_RUN[end]:
        print(f"seed {seed}", flush=True)
        check(case, seed)


if __name__ == "__main__":
    _main()
