"""Copies between two devices of one driver, on simulated drivers that run work at once and as late as a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

from burn.runtime import _native
from tests.runtime.simulation import Simulation, simulation

SIZES = [0, 1, 255, 64 << 10, (1 << 20) + 3]


@pytest.fixture
def driver() -> Iterator[Simulation]:
    found = simulation()
    found.check()
    yield found
    found.check()


@pytest.fixture
def pair(driver: Simulation) -> tuple[_native.Device, _native.Device]:
    return _native.Device("cuda", 0, driver.path), _native.Device("cuda", 1, driver.path)


def some_bytes(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("count", SIZES)
def test_elements_arrive(driver: Simulation, pair: tuple[_native.Device, ...], count: int, late: bool) -> None:
    first, second = pair
    source, target, back = first.alloc(count), second.alloc(count), first.alloc(count)
    want = some_bytes(count)
    first.send(source, want)
    with driver.lazy() if late else nullcontext():
        second.copy_from(target, first, source, count)
        first.copy_from(back, second, target, count)
        np.testing.assert_array_equal(first.fetch(back, count), want)


def test_the_source_is_read_before_it_is_written_again(driver: Simulation, pair: tuple[_native.Device, ...]) -> None:
    first, second = pair
    source, target = first.alloc(4096), second.alloc(4096)
    with driver.lazy():
        first.fill(source, 7, 4096)
        second.copy_from(target, first, source, 4096)
        first.fill(source, 9, 4096)
        first.wait()
        np.testing.assert_array_equal(second.fetch(target, 4096), np.full(4096, 7, np.uint8))


def test_opposite_directions_do_not_wait_for_each_other(pair: tuple[_native.Device, ...]) -> None:
    blocks = [device.alloc(256) for device in pair]

    def copy(at: int) -> None:
        for _ in range(300):
            pair[at].copy_from(blocks[at], pair[1 - at], blocks[1 - at], 256)

    threads = [threading.Thread(target=copy, args=(at,), daemon=True) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("function", "code"), [("cuMemcpyPeerAsync", 2), ("cuMemcpyPeerAsync", 719), ("cuStreamWaitEvent", 719)]
)
def test_a_failure_is_an_error(driver: Simulation, pair: tuple[_native.Device, ...], function: str, code: int) -> None:
    first, second = pair
    source, target = first.alloc(64), second.alloc(64)
    driver.fail(function, code)
    with pytest.raises(MemoryError if code == 2 else RuntimeError, match="copying elements from another device"):
        second.copy_from(target, first, source, 64)
    second.copy_from(target, first, source, 64)
    second.wait()
