"""Devices: memory, copies, order, recording, failures; on a simulated driver, both eager and as lazy as a real one."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from burn.runtime import _native
from tests.runtime.sanitizers import NATIVE, compiler_with
from tests.runtime.simulation import Simulation, another_driver, simulation

SMALL = 64 << 10  # what goes through pinned memory at most
MIB = 1 << 20


@pytest.fixture
def driver() -> Iterator[Simulation]:
    found = simulation()
    found.check()
    yield found
    found.check()


@pytest.fixture
def lazy(driver: Simulation) -> Iterator[None]:
    with driver.lazy():
        yield


@pytest.fixture
def device(driver: Simulation) -> _native.Device:
    return _native.Device("cuda", 0, driver.path)


def some_bytes(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def memory_at(address: int, count: int) -> np.ndarray:
    return np.frombuffer(memoryview((ctypes.c_uint8 * count).from_address(address)), np.uint8)


def double(driver: Simulation) -> None:
    """Kernels double int64[n]: arguments are the address and n."""

    def kernel(image: str, function: str, blocks: int, threads: int, shared: int, words: list[int]) -> None:
        memory_at(words[0], words[1] * 8).view(np.int64)[:] *= 2

    driver.on_launch(kernel)


# ---- which there are -----------------------------------------------------------------------------------------------


def test_facts(driver: Simulation, device: _native.Device) -> None:
    facts = device.facts()
    assert _native.device_count("cuda", driver.path) == 2
    assert facts["name"] == "Simulated GPU 0"
    assert (facts["architecture"], facts["warp"], facts["processors"], facts["driver"]) == ("sm_90", 32, 4, 13000)
    assert facts["memory"] == 1 << 30
    assert _native.Device("cuda", 1, driver.path).facts()["index"] == 1


def test_a_device_is_the_same_each_time(driver: Simulation, device: _native.Device) -> None:
    assert _native.Device("cuda", 0, driver.path).stream == device.stream
    assert _native.Device("cuda", 1, driver.path).stream != device.stream


@pytest.mark.parametrize(
    ("kind", "index", "library", "text"),
    [
        ("cuda", 2, None, "there is no device cuda:2: they are numbered from 0 to 1"),
        ("cuda", -1, None, "there is no device cuda:-1"),
        ("rocm", 0, None, "there are no devices of the kind 'rocm'"),
        ("cuda", 0, "/nowhere/libcuda.so", "there is no NVIDIA driver: /nowhere/libcuda.so: cannot open"),
        ("cuda", 0, "libm.so.6", "libm.so.6 is no NVIDIA driver that burn can use: it has no function cuInit"),
    ],
)
def test_what_is_not_there(driver: Simulation, kind: str, index: int, library: str | None, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        _native.Device(kind, index, library or driver.path)


def test_drivers_that_do_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = another_driver(tmp_path)
    monkeypatch.setenv("BURN_SIMULATED_VERSION", "11040")
    with pytest.raises(RuntimeError, match=r"too old: it offers version 11\.4, burn needs 12\.0 or a later one"):
        _native.device_count("cuda", library)
    monkeypatch.setenv("BURN_SIMULATED_VERSION", "12020")
    monkeypatch.setenv("BURN_SIMULATED_DEVICES", "0")
    assert _native.device_count("cuda", library) == 0
    with pytest.raises(RuntimeError, match="there is no device cuda:0: the driver sees none"):
        _native.Device("cuda", 0, library)


@pytest.mark.parametrize("function", ["cuDeviceGetName", "cuCtxPushCurrent_v2", "cuStreamCreate", "cuMemHostAlloc"])
def test_a_device_that_does_not_open_may_do_so_later(tmp_path: Path, function: str) -> None:
    driver = Simulation(another_driver(tmp_path))
    assert _native.device_count("cuda", driver.path) == 2
    driver.fail(function, 401)
    with pytest.raises(RuntimeError, match=r"cuda:0: .* \(CUDA_ERROR_ILLEGAL_STATE, 401\)"):
        _native.Device("cuda", 0, driver.path)
    device = _native.Device("cuda", 0, driver.path)
    assert not device.fetch(device.alloc(0), 0).size
    driver.check()


# ---- memory --------------------------------------------------------------------------------------------------------


def test_memory_is_aligned_and_apart(device: _native.Device) -> None:
    sizes = [0, 1, 255, 256, 257, 4095, 5000, 65_537, 3 * MIB + 1]
    blocks = [device.alloc(size) for size in sizes]
    assert [block.bytes for block in blocks] == sizes
    assert all(block.address and block.address % 256 == 0 for block in blocks)
    ends = sorted((block.address, block.address + max(block.bytes, 1)) for block in blocks)
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_freed_memory_is_handed_out_again(driver: Simulation, device: _native.Device) -> None:
    device.trim()
    given = driver.alive("memory")
    block = device.alloc(1_000_000)
    address = block.address
    for size in (1_000_000, 999_000, 940_000):
        del block
        block = device.alloc(size)
        assert block.address == address
    del block
    smaller, larger = device.alloc(500_000), device.alloc(1_100_000)
    assert address not in (smaller.address, larger.address)  # too much would be lost; too small
    assert driver.alive("memory") == given + 3
    del smaller, larger


def test_equal_blocks_are_handed_out_by_address(device: _native.Device) -> None:
    """In whatever order they were freed: calls of a loop then find recordings of earlier calls."""
    device.trim()
    blocks = {number: device.alloc(5000) for number in range(6)}
    addresses = sorted(block.address for block in blocks.values())
    for seed in range(4):
        for number in np.random.default_rng(seed).permutation(6):
            del blocks[number]
        blocks = {number: device.alloc(5000) for number in range(6)}
        assert [block.address for block in blocks.values()] == addresses
    device.trim()


def test_the_best_of_what_is_kept(device: _native.Device) -> None:
    device.trim()
    blocks = {size: device.alloc(size) for size in (20 * MIB, 24 * MIB, 22 * MIB)}
    at = {size: block.address for size, block in blocks.items()}
    blocks.clear()
    assert device.alloc(21 * MIB).address == at[22 * MIB]
    device.trim()


def test_used_and_kept_are_counted(driver: Simulation, device: _native.Device) -> None:
    gc.collect()
    device.trim()
    before = device.facts()
    assert before["kept"] == 0
    block = device.alloc(10 * MIB)
    assert device.facts()["used"] - before["used"] == 10 * MIB
    del block
    after = device.facts()
    assert (after["used"], after["kept"], after["free"]) == (before["used"], 10 * MIB, before["free"] - 10 * MIB)
    device.trim()
    assert device.facts() == before


@pytest.mark.parametrize("size", [1, 257, 2049, 4097, 70_000, MIB + 1, 15 * MIB + 7, 40 * MIB + 1])
def test_less_than_an_eighth_is_lost(device: _native.Device, size: int) -> None:
    before = device.facts()["used"]
    block = device.alloc(size)
    taken = device.facts()["used"] - before
    assert block.bytes <= taken <= max(size + 255, size * 9 / 8)


def test_out_of_memory_and_usable_again(device: _native.Device) -> None:
    device.trim()
    large = device.alloc(600 * MIB)
    with pytest.raises(
        MemoryError, match=rf"cuda:0: out of memory: {500 * MIB + 1} bytes were asked for, \d+ of {1 << 30}"
    ):
        device.alloc(500 * MIB + 1)
    del large  # is cached, which must not prevent an allocation that fits without it
    other = device.alloc(800 * MIB)
    assert device.facts()["kept"] == 0
    del other
    device.trim()
    for size in (-1, 1 << 50, (1 << 63) - 1):
        with pytest.raises(MemoryError, match=f"{size} bytes were asked for"):
            device.alloc(size)


def test_many_blocks(device: _native.Device) -> None:
    """More than the table of blocks has to begin with."""
    blocks = [device.alloc(256 * (1 + i % 7)) for i in range(1000)]
    assert len({block.address for block in blocks}) == 1000
    addresses = {block.address for block in blocks[::2]}
    del blocks[::2]
    again = [device.alloc(256 * (1 + 2 * i % 7)) for i in range(500)]
    assert {block.address for block in again} == addresses


# ---- copies --------------------------------------------------------------------------------------------------------

SIZES = [0, 1, 3, 255, SMALL - 1, SMALL, SMALL + 1, 1_000_003]


@pytest.mark.parametrize("size", SIZES)
def test_sent_copied_and_fetched(device: _native.Device, lazy: None, size: int) -> None:
    data = some_bytes(size)
    here, there = device.alloc(size), device.alloc(size)
    device.send(here, data)
    device.copy(there, here, size)
    np.testing.assert_array_equal(device.fetch(there, size), data)
    into = np.zeros(size, np.uint8)
    assert device.fetch(there.address, size, into) is into
    np.testing.assert_array_equal(into, data)


def test_filled(device: _native.Device, lazy: None) -> None:
    block = device.alloc(1000)
    device.fill(block, 1, 1000)
    device.fill(block.address + 10, 255, 5)
    device.fill(block, 7, 0)
    expected = np.ones(1000, np.uint8)
    expected[10:15] = 255
    np.testing.assert_array_equal(device.fetch(block, 1000), expected)


@pytest.mark.parametrize("size", [8, 1000, SMALL, SMALL + 1])
def test_what_was_sent_may_be_written_again(device: _native.Device, lazy: None, size: int) -> None:
    """Also by enough sends to go round the ring of pinned memory several times."""
    turns = 3 * 16 * SMALL // size if size > 8 else 5000
    block, data = device.alloc(size * 4), np.empty(size, np.uint8)
    for turn in range(turns):
        data[:] = turn % 251
        device.send(block.address + turn % 4 * size, data)
    data[:] = 255
    found = device.fetch(block, 4 * size).reshape(4, size)
    for turn in range(turns - 4, turns):
        assert (found[turn % 4] == turn % 251).all()


def test_pinned_memory_of_others_may_be_written_again(driver: Simulation, device: _native.Device, lazy: None) -> None:
    context, pinned, size = ctypes.c_void_p(), ctypes.c_void_p(), 3 * SMALL
    driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.library.cuCtxPushCurrent_v2(context)
    driver.library.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(size), 0)
    driver.library.cuCtxPopCurrent_v2(ctypes.byref(context))
    data = memory_at(pinned.value or 0, size)
    block = device.alloc(size)
    data[:] = 3
    device.send(block, data)
    data[:] = 4
    assert (device.fetch(block, size) == 3).all()


def test_buffers_are_checked(device: _native.Device) -> None:
    block = device.alloc(10)
    with pytest.raises(ValueError, match="the memory has 10 bytes, not 11"):
        device.send(block, bytes(11))
    with pytest.raises(ValueError, match="not as long"):
        device.fetch(block, 10, bytearray(9))
    with pytest.raises(ValueError, match="negative"):
        device.fill(block, 0, -1)
    with pytest.raises((BufferError, ValueError)):
        device.fetch(block, 10, bytes(10))
    with pytest.raises((BufferError, ValueError)):
        device.send(block, np.zeros((4, 4), np.uint8)[:, ::2])


def test_memory_that_is_not_the_devices(driver: Simulation, device: _native.Device) -> None:
    data = some_bytes(100)
    with pytest.raises(RuntimeError, match=r"cuda:0: fetching elements from it: invalid argument \(CUDA_ERROR_INVALID"):
        device.fetch(data.ctypes.data, 100)
    assert "is not the device's" in driver.fault()
    other = _native.Device("cuda", 1, driver.path).alloc(100)
    with pytest.raises(RuntimeError, match="invalid argument"):
        device.send(other, data)
    assert "is another device's" in driver.fault()


# ---- order ---------------------------------------------------------------------------------------------------------


def test_work_is_done_in_order(driver: Simulation, device: _native.Device, lazy: None) -> None:
    double(driver)
    function = device.load(b"double").find("double")
    block = device.alloc(80)
    device.send(block, np.arange(10))
    device.launch(function, 1, 32, [block.address, 10])
    device.copy(block.address + 40, block, 40)
    device.launch(function, 1, 32, [block.address, 10])
    np.testing.assert_array_equal(device.fetch(block, 80).view(np.int64), [0, 4, 8, 12, 16] * 2)


def test_freed_memory_is_written_after_it_was_read(device: _native.Device, lazy: None) -> None:
    """Whatever still reads a block was submitted before whatever will write it."""
    kept = device.alloc(1000)
    first = device.alloc(1000)
    address = first.address
    device.fill(first, 1, 1000)
    device.copy(kept, first, 1000)
    del first
    second = device.alloc(1000)
    assert second.address == address
    device.fill(second, 2, 1000)
    assert (device.fetch(kept, 1000) == 1).all()


def test_other_streams(driver: Simulation, device: _native.Device, lazy: None) -> None:
    context, stream, block = ctypes.c_void_p(), ctypes.c_void_p(), device.alloc(100)
    driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.library.cuCtxPushCurrent_v2(context)
    try:
        driver.library.cuStreamCreate(ctypes.byref(stream), 1)

        def fill(byte: int) -> None:
            driver.library.cuMemsetD8Async(ctypes.c_uint64(block.address), byte, ctypes.c_size_t(100), stream)

        device.fill(block, 1, 100)
        device.let_wait(stream.value or 0)
        fill(2)
        device.wait_for(stream.value or 0)
        assert (device.fetch(block, 100) == 2).all()
        fill(3)
        assert (device.fetch(block, 100) == 2).all()  # no synchronisation was requested
        device.wait_for(0)  # the default stream
    finally:
        driver.library.cuCtxPopCurrent_v2(ctypes.byref(context))


def test_a_threads_context_stays(driver: Simulation, device: _native.Device) -> None:
    """Another library works with another device in this thread."""
    context, current = ctypes.c_void_p(), ctypes.c_void_p()
    driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
    driver.library.cuCtxPushCurrent_v2(context)
    try:
        double(driver)
        function = device.load(b"k").find("k")
        block = device.alloc(40 * MIB)
        device.send(block, some_bytes(100))
        device.record()
        device.launch(function, 1, 1, [block.address, 0])
        device.replay(device.recorded())
        device.fetch(block, 100)
        device.mark().since(device.mark())
        device.facts()
        del block, function
        device.trim()
        driver.library.cuCtxGetCurrent(ctypes.byref(current))
        assert current.value == context.value
    finally:
        driver.library.cuCtxPopCurrent_v2(ctypes.byref(current))
    driver.library.cuCtxGetCurrent(ctypes.byref(current))
    assert current.value is None


# ---- launches ------------------------------------------------------------------------------------------------------


def test_what_a_launch_gets(driver: Simulation, device: _native.Device) -> None:
    seen: list[tuple[object, ...]] = []
    driver.on_launch(lambda *launch: seen.append(launch))
    module = device.load(b"some code")
    device.launch(module.find("f"), 3, 64, [])
    device.launch(module.find("g", 1000), (1 << 31) - 1, 1024, [1, -2, (1 << 63) - 1])
    device.launch(module.find("f"), 0, 64, [5])  # no block, no launch
    device.launch(module.find("f", 200_000), 1, 1, [7])
    device.launch(module.find("f", 60_000), 1, 1, list(range(1000)))
    device.wait()
    assert seen == [
        ("some code", "f", 3, 64, 0, []),
        ("some code", "g", (1 << 31) - 1, 1024, 1000, [1, -2, (1 << 63) - 1]),
        ("some code", "f", 1, 1, 200_000, [7]),
        ("some code", "f", 1, 1, 60_000, list(range(1000))),
    ]


def test_launches_that_cannot_be(driver: Simulation, device: _native.Device) -> None:
    double(driver)
    module = device.load(b"k")
    function = module.find("kernel_3")
    for blocks in (-1, 1 << 31):
        with pytest.raises(RuntimeError, match=f"cuda:0: kernel_3: {blocks} blocks are asked for"):
            device.launch(function, blocks, 32, [])
    for threads in (0, -1, 1025):
        with pytest.raises(RuntimeError, match=f"kernel_3: a launch of {threads} threads a block"):
            device.launch(function, 1, threads, [])
    with pytest.raises(RuntimeError, match="1025 arguments"):
        device.launch(function, 1, 1, [0] * 1025)
    for shared in (-1, 232_449):
        with pytest.raises(
            RuntimeError, match=f"kernel_3: .* at most 232448 bytes of shared memory, it needs {shared}"
        ):
            module.find("kernel_3", shared)
    with pytest.raises(RuntimeError, match=r"cuda:0: loading a kernel: device kernel image is invalid"):
        device.load(b"")
    driver.fail("cuModuleGetFunction", 500)
    with pytest.raises(RuntimeError, match=r"cuda:0: nowhere: named symbol not found \(CUDA_ERROR_NOT_FOUND, 500\)"):
        module.find("nowhere")


@pytest.mark.parametrize(
    ("function", "act", "text"),
    [
        ("cuLaunchKernel", lambda d, f, m: d.launch(f, 1, 1, []), "kernel_3: an illegal memory access was encountered"),
        ("cuEventSynchronize", lambda d, f, m: d.wait(), "waiting for it: an illegal memory access"),
        ("cuEventSynchronize", lambda d, f, m: d.fetch(m, 8), "fetching elements from it: an illegal memory access"),
        ("cuMemcpyHtoDAsync_v2", lambda d, f, m: d.send(m, bytes(8)), "sending elements to it: an illegal"),
        ("cuCtxGetCurrent", lambda d, f, m: d.fill(m, 0, 8), "entering its context: an illegal"),
        ("cuMemsetD8Async", lambda d, f, m: d.fill(m, 0, 8), "filling its memory: an illegal"),
        ("cuEventCreate", lambda d, f, m: d.mark(), "marking a moment: an illegal"),
        ("cuStreamBeginCapture_v2", lambda d, f, m: d.record(), "recording: an illegal"),
        ("cuMemGetInfo_v2", lambda d, f, m: d.facts(), "asking for its free memory: an illegal"),
    ],
)
def test_failures_are_told(
    driver: Simulation, device: _native.Device, function: str, act: Callable[..., object], text: str
) -> None:
    double(driver)
    arguments = device, device.load(b"k").find("kernel_3"), device.alloc(8)
    driver.fail(function, 700)
    with pytest.raises(RuntimeError, match=rf"cuda:0: {text}.*\(CUDA_ERROR_ILLEGAL_ADDRESS, 700\)"):
        act(*arguments)
    device.fill(arguments[2], 0, 8)  # nothing is locked


# ---- recording -----------------------------------------------------------------------------------------------------


def test_recorded_work_is_done_when_it_is_replayed(driver: Simulation, device: _native.Device, lazy: None) -> None:
    double(driver)
    function = device.load(b"double").find("double")
    block = device.alloc(80)
    device.send(block, np.arange(10))
    device.record()
    device.launch(function, 1, 32, [block.address, 10])
    device.launch(function, 1, 32, [block.address, 5])
    device.copy(block.address, block.address + 72, 8)
    device.fill(block.address + 8, 0, 8)
    graph = device.recorded()
    np.testing.assert_array_equal(device.fetch(block, 80).view(np.int64), np.arange(10))
    device.replay(graph)
    device.replay(graph)
    found = device.fetch(block, 80).view(np.int64)
    np.testing.assert_array_equal(found, [36, 0, 32, 48, 64, 20, 24, 28, 32, 36])


def test_an_empty_recording(device: _native.Device) -> None:
    device.record()
    device.replay(device.recorded())


def test_what_cannot_be_recorded(driver: Simulation, device: _native.Device) -> None:
    block = device.alloc(100)
    device.record()
    graph = None
    try:
        for act, text in [
            (lambda: device.send(block, bytes(10)), "sending elements to it"),
            (lambda: device.fetch(block, 10), "fetching elements from it"),
            (lambda: device.wait(), "waiting for it"),
            (lambda: device.mark(), "marking a moment"),
            (lambda: device.wait_for(0), "waiting for another stream"),
            (lambda: device.let_wait(0), "letting another stream wait"),
            (lambda: device.record(), "recording"),
        ]:
            with pytest.raises(RuntimeError, match=f"cuda:0: {text}: not while work is being recorded"):
                act()
        device.fill(block, 9, 100)
        module = device.load(b"k")
        del module  # is unloaded when the recording is done
        assert driver.alive("module") >= 1
    finally:
        graph = device.recorded()
    device.replay(graph)
    assert (device.fetch(block, 100) == 9).all()
    with pytest.raises(RuntimeError, match="cuda:0: nothing is being recorded"):
        device.recorded()


def test_memory_can_be_had_while_recording(device: _native.Device) -> None:
    device.trim()
    device.record()
    block = device.alloc(700 * MIB)
    del block
    block = device.alloc(800 * MIB)
    device.fill(block, 5, 100)
    graph = device.recorded()
    device.replay(graph)
    assert (device.fetch(block, 100) == 5).all()
    del block
    device.trim()
    with pytest.raises(RuntimeError, match="replaying: an illegal memory access"):
        device.replay(graph)
    simulation().fault()


def test_other_threads_wait_for_a_recording(device: _native.Device) -> None:
    block, other = device.alloc(100), device.alloc(100)
    sent = threading.Event()

    def send() -> None:
        device.send(other, np.full(100, 2, np.uint8))
        sent.set()

    device.record()
    thread = threading.Thread(target=send)
    thread.start()
    device.fill(block, 1, 100)
    assert not sent.wait(0.05)
    graph = device.recorded()
    thread.join()
    assert (device.fetch(other, 100) == 2).all()
    device.fill(other, 3, 100)
    device.replay(graph)
    assert (device.fetch(other, 100) == 3).all()


def test_clocks(device: _native.Device, lazy: None) -> None:
    first = device.mark()
    device.fill(device.alloc(MIB), 0, MIB)
    last = device.mark()
    assert 0 < last.since(first) < 10**9
    assert first.since(first) == 0


# ---- threads, processes, ends --------------------------------------------------------------------------------------


def test_threads(driver: Simulation, device: _native.Device, lazy: None) -> None:
    double(driver)
    function = device.load(b"double").find("double")
    wrong: list[object] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for turn in range(30):
                data = random.integers(0, 1000, int(random.integers(1, 20_000)))
                block, copy = device.alloc(data.nbytes), device.alloc(data.nbytes)
                device.send(block, data)
                if turn % 3 == seed % 3:
                    device.record()
                    device.launch(function, 1, 1, [block.address, data.size])
                    device.replay(device.recorded())
                else:
                    device.launch(function, 1, 1, [block.address, data.size])
                device.copy(copy, block, data.nbytes)
                del block
                if not np.array_equal(device.fetch(copy, data.nbytes).view(np.int64), data * 2):
                    wrong.append((seed, turn))
                if turn % 10 == 0:
                    device.trim()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.sanitized
@pytest.mark.parametrize("sanitizer", ["thread", pytest.param("address,undefined", marks=pytest.mark.slow)])
def test_threads_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    flags = compiler_with(sanitizer, tmp_path)
    here, driver, stress = Path(__file__).parent, str(tmp_path / "driver.so"), str(tmp_path / "stress")
    sources = [str(path) for pattern in ("device*.c", "driver*.c") for path in NATIVE.glob(pattern)]
    simulated = [*flags, "-shared", "-fPIC", str(here / "simulated_driver.c"), "-o", driver, "-lpthread"]
    subprocess.run(simulated, check=True)
    libraries = ["-lpthread", "-ldl", "-lm"]
    subprocess.run([*flags, str(here / "device_stress.c"), *sources, *libraries, "-o", stress], check=True)
    run = subprocess.run([stress, driver], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


def test_nothing_is_left(driver: Simulation, device: _native.Device) -> None:
    kinds = ("memory", "pinned", "event", "module", "graph")
    gc.collect()
    device.wait()
    device.trim()
    before = [driver.alive(kind) for kind in kinds]
    double(driver)
    blocks = [device.alloc(1000 * i) for i in range(20)]
    module = device.load(b"k")
    function = module.find("k")
    device.record()
    device.launch(function, 1, 1, [blocks[1].address, 3])
    graph, moment = device.recorded(), device.mark()
    device.replay(graph)
    assert [driver.alive(kind) for kind in kinds] != before
    del blocks, module, function, graph, moment
    gc.collect()
    device.trim()
    assert [driver.alive(kind) for kind in kinds] == before


def test_a_function_keeps_its_module(driver: Simulation, device: _native.Device) -> None:
    double(driver)
    function = device.load(b"k").find("k")
    gc.collect()
    device.launch(function, 1, 1, [0, 0])


def test_a_forked_child_is_told() -> None:
    script = """
import os, sys
from burn.runtime import _native
device = _native.Device("cuda", 0, sys.argv[1])
block = device.alloc(100)
module = device.load(b"k")
function = module.find("k")
child = os.fork()
if child == 0:
    told = 0
    for act in (lambda: device.alloc(1), lambda: device.send(block, b"1"), lambda: device.wait(),
                lambda: device.facts(), lambda: device.launch(function, 1, 1, []), lambda: device.record(),
                lambda: _native.Device("cuda", 0, sys.argv[1]), lambda: _native.device_count("cuda", sys.argv[1])):
        try:
            act()
        except RuntimeError as error:
            told += "was forked from one that had used the device" in str(error) and "spawn" in str(error)
    del block, function, module
    device.trim()
    os._exit(told)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
device.fill(block, 1, 100)
assert (device.fetch(block, 100) == 1).all()
sys.exit(0 if code == 8 else 1)
"""
    subprocess.run([sys.executable, "-c", script, simulation().path], check=True, timeout=300)


def test_a_child_of_a_process_without_devices_may_have_them() -> None:
    script = """
import os, sys
from burn.runtime import _native
try:
    _native.device_count("cuda", "/nowhere/libcuda.so")
except RuntimeError:
    pass
child = os.fork()
if child == 0:
    os._exit(_native.device_count("cuda", sys.argv[1]))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 2)
"""
    subprocess.run([sys.executable, "-c", script, simulation().path], check=True, timeout=300)


def test_a_process_ends_with_devices_open() -> None:
    script = """
import sys, threading
from burn.runtime import _native
device = _native.Device("cuda", 0, sys.argv[1])
block = device.alloc(100)
module = device.load(b"k")
moment = device.mark()
def work():
    while True:
        device.fill(block, 1, 100)
        device.wait()
threading.Thread(target=work, daemon=True).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, simulation().path], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- DLPack --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack(device: _native.Device, version: tuple[int, int] | None) -> None:
    block = device.alloc(2 * 3 * 5 * 4)
    address, used = block.address, device.facts()["used"]
    tensor = _native.device_to_dlpack(block, address, [2, 3, 5], 2, 32, 2, 0)
    assert tensor.__dlpack_device__() == (2, 0)
    capsule = tensor.__dlpack__(stream=1, max_version=version)
    assert ("versioned" in repr(capsule)) == (version is not None)
    del block, tensor
    found = _native.device_from_dlpack(capsule)
    assert found[:-1] == (address, (2, 3, 5), (15, 5, 1), 2, 32, 2, 0)
    with pytest.raises(TypeError, match="not a DLPack capsule"):
        _native.device_from_dlpack(capsule)  # it can be taken once
    assert device.facts()["used"] == used
    del found, capsule
    gc.collect()
    assert device.facts()["used"] < used


def test_dlpack_of_no_axes_and_of_other_memory() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = _native.device_from_dlpack(x[:, ::2].__dlpack__())
    assert found[:-1] == (x.ctypes.data, (3, 2), (4, 2), 2, 32, 1, 0)
    assert _native.device_from_dlpack(np.array(1.5).__dlpack__())[1:3] == ((), ())
