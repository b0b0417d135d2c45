"""Memory of outputs: freed blocks are reused within bounds, and released on request."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burn.compiler import LARGE, executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.runtime import _native
from burn.runtime.compiler_memory import LIBRARY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are counted by Linux")

MANY = 60


def chain(ops_count: int) -> Program:
    """A program of so many additions with as many outputs, which no pass merges."""
    program = Program.create([("x", TensorType("float32", (symbol("n"),)))])
    with program.building("sums"):
        sums = [program.inputs[0]]
        for _ in range(ops_count):
            sums.append(ops.add(sums[-1], program.inputs[0]))
    return program.finish([(f"y{i}", y) for i, y in enumerate(sums[1:])])


@pytest.fixture(scope="module")
def run() -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    """Gives multiples of its input."""
    return executable(chain(MANY))


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


def test_large_outputs_begin_at_different_offsets_of_a_page(run) -> None:
    results = run(np.zeros(1 << 18, np.float32))
    offsets = [y.ctypes.data % 4096 for y in results]
    assert max(map(offsets.count, offsets)) <= MANY // 2
    assert all(offset % 64 == 0 for offset in offsets)


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


def of_library(name: str) -> int:
    """Resident bytes of code and read-only data of a loaded library."""
    total, is_counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            is_counted = len(words) > 5 and name in words[5] and "w" not in words[1]
        elif is_counted and words[0] == "Rss:":
            total += int(words[1]) * 1024
    return total


def test_pages_of_a_library_are_released_and_read_again() -> None:
    executable(chain(2))(np.zeros(3, np.float32))
    before = of_library(LIBRARY)
    assert before > 20e6
    assert _native.release_library(LIBRARY) > before
    assert of_library(LIBRARY) < 0.2 * before
    assert len(executable(chain(3))(np.ones(3, np.float32))) == 3
    assert _native.release_library("no library has this name") == 0


def test_a_large_compilation_releases_the_compiler() -> None:
    program = executable(chain(2 * LARGE))
    assert of_library(LIBRARY) < 20e6
    np.testing.assert_array_equal(program(np.ones(3, np.float32))[-1], np.full(3, 2 * LARGE + 1, np.float32))


def read_pages(name: str) -> int:
    """Reads a byte of each page of a library's code and read-only data; returns how many bytes they have."""
    read = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split()
        if len(words) > 5 and name in words[5] and words[1][0] == "r" and "w" not in words[1]:
            start, end = (int(number, 16) for number in words[0].split("-"))
            read += end - start
            for page in range(start, end, mmap.PAGESIZE):
                assert ctypes.c_char.from_address(page).value is not None
    return read


def test_memory_of_runs_is_released(run) -> None:
    run(np.ones(100_000, np.float32))
    program = executable(chain(3))
    first = program(np.ones(5, np.float32))
    program.release_memory()
    assert program.arena_bytes == 0
    np.testing.assert_array_equal(program(np.ones(5, np.float32))[-1], first[-1])


def test_changed_code_stays() -> None:
    """A debugger's breakpoint, or the patch of a tool, is in a page that the process has of its own."""
    context()
    libc = ctypes.CDLL(None, use_errno=True)
    read_pages(LIBRARY)
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split()
        if len(words) > 5 and LIBRARY in words[5] and words[1] == "r-xp":
            break
    else:
        pytest.fail("the library has no code")
    start, end = (int(number, 16) for number in words[0].split("-"))
    page = ctypes.c_void_p((start + end) // 2 // mmap.PAGESIZE * mmap.PAGESIZE)
    assert page.value is not None
    byte = ctypes.c_ubyte.from_address(page.value)
    given = byte.value
    protections = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    assert libc.mprotect(page, mmap.PAGESIZE, protections) == 0
    try:
        byte.value = given ^ 0xFF
        _native.release_library(LIBRARY)
        assert byte.value == given ^ 0xFF
    finally:
        byte.value = given
        libc.madvise(page, mmap.PAGESIZE, mmap.MADV_DONTNEED)
        libc.mprotect(page, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
    _native.release_library(LIBRARY)
    assert of_library(LIBRARY) < 20e6


def test_forks_while_pages_are_released() -> None:
    """A release holds a lock of the dynamic linker. A child of fork needs it, and has no thread that gives it back."""
    context()
    over = threading.Event()

    def release() -> None:
        while not over.is_set():
            _native.release_library(LIBRARY)

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(lambda *_: 1)
    thread = threading.Thread(target=release)
    thread.start()
    try:
        for _ in range(40):
            child = os.fork()
            if not child:
                signal.alarm(120)  # ends a child that waits for the lock
                ctypes.CDLL(None).dl_iterate_phdr(callback, None)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        over.set()
        thread.join()
