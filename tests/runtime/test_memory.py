"""Memory of outputs: freed blocks are reused within bounds, and released on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.runtime import _native

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are counted by Linux")

MANY = 60


@pytest.fixture(scope="module")
def run() -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    """Gives multiples of its input."""
    program = Program.create([("x", TensorType("float32", (symbol("n"),)))])
    with program.building("sums"):
        sums = [program.inputs[0]]
        for _ in range(MANY):
            sums.append(ops.add(sums[-1], program.inputs[0]))
    return executable(program.finish([(f"y{i}", y) for i, y in enumerate(sums[1:])]))


def faults() -> int:
    """Pages that this process had to ask for so far."""
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[7])


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size", [30_000, 100_000, 400_000])
def test_outputs_take_what_was_freed(run, size: int) -> None:
    x = np.zeros(size, np.float32)
    for _ in range(3):
        run(x)
    before, times = faults(), 10
    for _ in range(times):
        run(x)
    fresh = MANY * 4 * size // os.sysconf("SC_PAGE_SIZE")
    assert faults() - before < 0.1 * times * fresh


def test_what_is_kept_has_bounds(run) -> None:
    """Of 60 outputs of 16 MB each a quarter of a gigabyte stays at most, and nothing when that is asked for."""
    _native.trim_memory()
    before = resident()
    run(np.zeros(4_000_000, np.float32))
    assert resident() - before < 300e6
    _native.trim_memory()
    assert resident() - before < 50e6


def test_other_sizes_come_to_be_kept(run) -> None:
    """Blocks that were freed long ago are released."""
    run(np.zeros(1_000_000, np.float32))
    test_outputs_take_what_was_freed(run, 100_000)
    test_outputs_take_what_was_freed(run, 900_000)
