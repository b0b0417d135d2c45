"""AMD's driver table (driver_hip.c) on a simulated HIP library: each of its functions, facts, and failures."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from burn.runtime import _native
from tests.runtime.sanitizers import NATIVE
from tests.runtime.simulation import Simulation, simulated_hip
from tests.runtime.test_device import double

MIB = 1 << 20


@pytest.fixture
def driver() -> Iterator[Simulation]:
    found = simulated_hip()
    found.check()
    yield found
    found.check()


@pytest.fixture(params=[False, True], ids=["eager", "lazy"])
def device(driver: Simulation, request: pytest.FixtureRequest) -> Iterator[_native.Device]:
    if request.param:
        with driver.lazy():
            yield _native.Device("hip", 0, driver.path)
    else:
        yield _native.Device("hip", 0, driver.path)


def test_facts(driver: Simulation) -> None:
    facts = _native.Device("hip", 0, driver.path).facts()
    assert _native.device_count("hip", driver.path) == 2
    assert (facts["name"], facts["architecture"], facts["warp"]) == ("Simulated GPU 0", "gfx942", 64)
    assert (facts["processors"], facts["shared"], facts["driver"]) == (304, 64 << 10, 6030)
    assert facts["memory"] == 1 << 30 and _native.Device("hip", 1, driver.path).facts()["index"] == 1


ELSEWHERE = """
import sys
from burn.runtime import _native
try:
    facts = _native.Device("hip", 0, sys.argv[1]).facts()
    print(facts["architecture"], facts["warp"])
except RuntimeError as error:
    print(error)
"""


def elsewhere(monkeypatch: pytest.MonkeyPatch, library: str, **environment: str) -> str:
    """The output of a process that opens the device. In one process, HIP's functions are those of the library opened last."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-c", ELSEWHERE, library]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("name", "text"), [("gfx90a:sramecc+:xnack-", "gfx90a 64"), ("gfx1100", "gfx1100 32"), ("gfx1201", "gfx1201 32")]
)
def test_wavefronts(driver: Simulation, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    assert elsewhere(monkeypatch, driver.path, BURN_SIMULATED_ARCHITECTURE=name) == text


def test_an_old_version(driver: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the AMD driver is too old: it offers version 5.7, burn needs 6.0 or a later one"
    assert elsewhere(monkeypatch, driver.path, BURN_SIMULATED_VERSION="50731921") == text


def test_no_device(driver: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "there is no device hip:0: the driver sees none"
    assert elsewhere(monkeypatch, driver.path, BURN_SIMULATED_DEVICES="0") == text


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert elsewhere(monkeypatch, "libm.so.6") == (
        "libm.so.6 is no AMD driver that burn can use: it has no function hipDriverGetVersion"
    )
    assert elsewhere(monkeypatch, "/nowhere/libamdhip64.so").startswith("there is no AMD driver: /nowhere/libamdhip64")


def functions() -> list[str]:
    """The names that driver_hip.c looks up."""
    return sorted(set(re.findall(r'"(hip\w+)"', (NATIVE / "driver_hip.c").read_text())) - {"hip"})


def test_each_function_is_required(tmp_path: Path, driver: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library without one function is refused, with the function's name."""
    wanted = functions()
    assert len(wanted) == 45
    exported = subprocess.run(["nm", "-D", "--defined-only", driver.path], check=True, capture_output=True, text=True)
    assert set(wanted) <= {line.split()[-1] for line in exported.stdout.splitlines()}
    for name in (wanted[0], wanted[len(wanted) // 2], wanted[-1]):
        library = tmp_path / f"{name}.so"
        library.write_bytes(Path(driver.path).read_bytes().replace(f"\0{name}\0".encode(), f"\0X{name[1:]}\0".encode()))
        assert elsewhere(monkeypatch, str(library)).endswith(f"it has no function {name}")


def test_memory_and_copies(device: _native.Device) -> None:
    data = np.random.default_rng(0).integers(0, 256, 3 * MIB + 7, np.uint8)
    block, other = device.alloc(data.nbytes), device.alloc(data.nbytes)
    device.send(block, data)
    device.copy(other, block, data.nbytes)
    np.testing.assert_array_equal(device.fetch(other, data.nbytes), data)
    device.fill(other, 7, 100)
    assert (device.fetch(other, 100) == 7).all()
    with pytest.raises(MemoryError, match="hip:0: out of memory: 1099511627776 bytes were asked for"):
        device.alloc(1 << 40)


def test_copies_between_devices(driver: Simulation) -> None:
    first, second = (_native.Device("hip", index, driver.path) for index in (0, 1))
    want = np.random.default_rng(0).integers(0, 256, 5000, np.uint8)
    source, target = first.alloc(5000), second.alloc(5000)
    with driver.lazy():
        first.send(source, want)
        second.copy_from(target, first, source, 5000)
        first.fill(source, 0, 5000)
        np.testing.assert_array_equal(second.fetch(target, 5000), want)


def test_launches_and_recordings(driver: Simulation, device: _native.Device) -> None:
    double(driver)
    function = device.load(b"double").find("double", 60_000)
    block = device.alloc(80)
    device.send(block, np.arange(10))
    device.launch(function, 1, 256, [block.address, 10])
    device.record()
    device.launch(function, 1, 64, [block.address, 5])
    device.copy(block.address, block.address + 72, 8)
    device.fill(block.address + 8, 0, 8)
    graph = device.recorded()
    device.replay(graph)
    device.replay(graph)
    found = device.fetch(block, 80).view(np.int64)
    np.testing.assert_array_equal(found, [18, 0, 16, 24, 32, 10, 12, 14, 16, 18])
    with pytest.raises(RuntimeError, match="at most 65536 bytes of shared memory, it needs 65537"):
        device.load(b"k").find("double", 65_537)


def test_nodes_of_graphs(driver: Simulation, tmp_path: Path) -> None:
    """A list of work as one graph, whose nodes get other addresses."""
    compiler = shutil.which("cc")
    assert compiler is not None
    here, program = Path(__file__).parent, str(tmp_path / "nodes")
    sources = [str(path) for pattern in ("device*.c", "driver*.c") for path in NATIVE.glob(pattern)]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", f"-I{NATIVE}"]
    libraries = ["-lpthread", "-ldl", "-lm"]
    subprocess.run([compiler, *flags, str(here / "hip_nodes.c"), *sources, *libraries, "-o", program], check=True)
    done = subprocess.run([program, driver.path], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["1066 0 0 1066", "1066 1066 1066 1066", "1066 2132 2132 1066"]


def test_events_and_streams(driver: Simulation, device: _native.Device) -> None:
    first = device.mark()
    device.fill(device.alloc(MIB), 0, MIB)
    assert 0 < device.mark().since(first) < 10**9
    stream = driver.stream()
    device.wait_for(stream)
    device.let_wait(stream)
    device.wait()


def test_the_thread_s_device_is_restored(driver: Simulation) -> None:
    """Another library works with another device in this thread, and HIP's own pop of a context would leave burn's current."""
    device, current = _native.Device("hip", 0, driver.path), ctypes.c_int()
    assert driver.library.hipSetDevice(1) == 0
    try:
        block = device.alloc(100)
        device.fill(block, 1, 100)
        device.record()
        device.fill(block, 2, 100)
        device.replay(device.recorded())
        assert (device.fetch(block, 100) == 2).all()
        driver.library.hipGetDevice(ctypes.byref(current))
        assert current.value == 1
    finally:
        driver.library.hipSetDevice(0)


@pytest.mark.parametrize(
    ("function", "act", "text"),
    [
        ("cuLaunchKernel", lambda d, f, m: d.launch(f, 1, 1, []), "kernel_3: an illegal memory access was encountered"),
        ("cuEventSynchronize", lambda d, f, m: d.wait(), "waiting for it: an illegal memory access"),
        ("cuMemcpyHtoDAsync_v2", lambda d, f, m: d.send(m, bytes(8)), "sending elements to it: an illegal"),
        ("cuMemsetD8Async", lambda d, f, m: d.fill(m, 0, 8), "filling its memory: an illegal"),
        ("cuMemGetInfo_v2", lambda d, f, m: d.facts(), "asking for its free memory: an illegal"),
        ("cuStreamBeginCapture_v2", lambda d, f, m: d.record(), "recording: an illegal"),
        ("hipGetDevice", lambda d, f, m: d.fill(m, 0, 8), "entering its context: an illegal"),
    ],
)
def test_failures(driver: Simulation, function: str, act: Callable[..., object], text: str) -> None:
    double(driver)
    device = _native.Device("hip", 0, driver.path)
    arguments = device, device.load(b"k").find("kernel_3"), device.alloc(8)
    driver.fail(function, 700)
    with pytest.raises(RuntimeError, match=rf"hip:0: {text}.*700\)"):
        act(*arguments)
    device.fill(arguments[2], 0, 8)  # nothing is locked
    device.wait()
