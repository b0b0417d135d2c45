"""Tiles of attention reach beyond the last key: what lies there is never a number below 2 ** -126, which costs some CPUs a
hundred times as much to multiply. The CPU's own flag tells whether one was an operand."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import burn
from burn import ops
from burn.runtime import _native
from burn.runtime.host import architecture

LIBRARY = ctypes.CDLL(None)
STATUS, DENORMAL = 7, 2
"""The index of the vector status in the words that glibc's fegetenv writes, and the flag's bit in it."""


def met_tiny() -> bool:
    """True if this thread has had a denormal operand since the last call."""
    kept = (ctypes.c_uint32 * 8)()
    LIBRARY.fegetenv(kept)
    found = bool(kept[STATUS] & DENORMAL)
    kept[STATUS] &= ~DENORMAL
    LIBRARY.fesetenv(kept)
    return found


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Flags are a thread's own: all is computed on this one."""
    before = _native.num_threads()
    burn.set_num_threads(1)
    yield
    burn.set_num_threads(before)


def attention(b: int, h: int, n: int, d: int, turned: bool):
    shape = f"float32[{b}, {h}, {d}, {n}]" if turned else f"float32[{b}, {h}, {n}, {d}]"

    def f(q: burn.Tensor, k: burn.Tensor, v: burn.Tensor) -> burn.Tensor:
        return ops.attention(q, k.swapaxes(2, 3) if turned else k, v, scale=d**-0.5)

    return burn.compile(f, (f"float32[{b}, {h}, {n}, {d}]", shape, f"float32[{b}, {h}, {n}, {d}]"))


@pytest.mark.skipif(
    architecture() != "x86_64" or sys.platform != "linux", reason="the flag is x86's, its place glibc's"
)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("n", [65, 97, 176, 197])
def test_nothing_tiny_is_multiplied(one_thread: None, n: int, turned: bool) -> None:
    run = attention(1, 2, n, 32, turned)
    other = attention(1, 2, 256, 32, turned)
    random = np.random.default_rng(n)
    q, k, v = (random.uniform(0.5, 1.5, (1, 2, n, 32)).astype("f4") for _ in range(3))
    k = np.ascontiguousarray(k.swapaxes(2, 3)) if turned else k
    tiny = np.full((1, 2, 256, 32), 1e-40, "f4")
    want = run(q, k, v)
    other(tiny, np.ascontiguousarray(tiny.swapaxes(2, 3)) if turned else tiny, tiny)  # is left in the thread's memory
    assert met_tiny()
    got = run(q, k, v)
    assert not met_tiny()
    assert np.array_equal(got, want)
