"""Wrong uses and failures of a GPU are one clear error each, and the process goes on; on the simulated GPU."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.errors import DeviceError, InputError, RunError, TypeMismatch
from burn.runtime.device import device
from burn.runtime.device_array import to_device
from tests.runtime.simulation import Simulation, another_driver, simulation

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("gpu")

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def driver() -> Iterator[Simulation]:
    yield simulation()


def program(name: str = "cuda") -> burn.Executable:
    return burn.compile(lambda x: burn.softmax(x * 2.0) + x, ("float32[n, 4]",), device=name, cache=False)


def expected(x: np.ndarray) -> np.ndarray:
    wide = np.exp(2 * x.astype(np.float64))
    return wide / wide.sum(-1, keepdims=True) + x


def check(run: burn.Executable) -> None:
    """The program gives right results."""
    np.testing.assert_allclose(run(X), expected(X), rtol=1e-5)


def lines(error: pytest.ExceptionInfo[Exception]) -> list[str]:
    return str(error.value).splitlines()


def test_tensors_on_different_devices() -> None:
    x, y = (burn.tensor(X, device=name) for name in ("cuda:0", "cuda:1"))
    for other in (y, burn.tensor(X)):
        with pytest.raises(TypeMismatch) as error:
            (x + other).numpy()
        assert "cuda:0" in str(error.value) and other.device in str(error.value)
    run = program()
    with pytest.raises(InputError) as error:
        run(to_device(X, "cuda:1"))
    assert "cuda:1" in str(error.value) and "cuda:0" in str(error.value)
    check(run)


@pytest.mark.parametrize("index", [2, 9999])
def test_an_unknown_number(index: int) -> None:
    with pytest.raises(DeviceError, match=f"there is no device cuda:{index}: they are numbered from 0 to 1") as error:
        program(f"cuda:{index}")
    assert len(lines(error)) == 2
    check(program("cuda:1"))


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"BURN_SIMULATED_VERSION": "11080"}, "the NVIDIA driver is too old: it offers version 11.8, burn needs 12.0"),
        ({"BURN_SIMULATED_DEVICES": "0"}, "there is no device cuda:0: the driver sees none"),
        ({"BURN_CUDA_DRIVER": "/nowhere/libcuda.so"}, "there is no NVIDIA driver: /nowhere/libcuda.so"),
    ],
)
def test_drivers_that_do_not_serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str], text: str
) -> None:
    """In another process, which then computes on the CPU."""
    monkeypatch.setenv("BURN_CUDA_DRIVER", another_driver(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    script = """
import burn
try:
    burn.compile(lambda x: x + 1.0, ("float32[n]",), device="cuda")
except burn.errors.DeviceError as error:
    print(error)
print(burn.compile(lambda x: x + 1.0, ("float32[n]",))([1.0]))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    first, problem, last = done.stdout.splitlines()
    assert "cuda:0 cannot be used" in first and text in problem and last == "[2.]"


def test_out_of_memory_in_a_run() -> None:
    """Another library holds the rest: the error gives the bytes requested, those that are free and those that burn uses."""
    run = program()
    check(run)
    native = device("cuda").native
    native.trim()
    held = native.alloc(960 << 20)
    text = r"cuda:0: out of memory: \d+ bytes were asked for, \d+ of \d+ are free; burn uses \d+"
    with pytest.raises(RunError, match=text) as error:
        run(np.zeros((8 << 20, 4), np.float32))
    assert len(lines(error)) == 2
    del held
    check(run)


def test_out_of_memory_for_an_array() -> None:
    with pytest.raises(MemoryError, match=r"cuda:0: out of memory: \d+ bytes were asked for"):
        to_device(np.empty(1 << 31, np.uint8), "cuda")
    check(program())


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("cuLaunchKernel", 700, "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700)"),
        ("cuLaunchKernel", 719, "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED, 719)"),
        ("cuMemcpyHtoDAsync_v2", 719, "sending elements to it: unspecified launch failure"),
        ("cuEventSynchronize", 719, "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED, 719)"),
    ],
)
def test_launches_that_fail(driver: Simulation, function: str, code: int, text: str) -> None:
    """The error has the driver's words, and the next run is right."""
    run = program()
    check(run)
    driver.fail(function, code)
    with pytest.raises(RunError) as error:
        run(X[:2])
    assert "cuda:0: " in str(error.value) and text in str(error.value)
    assert len(lines(error)) == 2
    check(run)


def test_a_gpu_that_is_lost(driver: Simulation) -> None:
    """Each use is an error with the driver's words; the CPU and later the GPU compute."""
    run, on_cpu = program(), program("cpu")
    check(run)
    kept = to_device(X, "cuda")
    with driver.lost():
        for act in (run, lambda x: run(kept), lambda x: kept.numpy(), lambda x: to_device(x, "cuda")):
            with pytest.raises((RunError, DeviceError, RuntimeError)) as error:
                act(X)
            assert "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED, 719)" in str(error.value)
        np.testing.assert_allclose(on_cpu(X), expected(X), rtol=1e-5)
    np.testing.assert_array_equal(kept.numpy(), X)
    check(run)


def test_memory_that_its_owner_freed(driver: Simulation) -> None:
    """torch's memory is gone when a recorded call reads it: the driver's error, and the next call is right."""
    memory = np.empty(4096 + X.nbytes, np.uint8)
    address = memory.ctypes.data + -memory.ctypes.data % 4096
    ctypes.memmove(address, X.ctypes.data, X.nbytes)
    native = device("cuda").native
    driver.adopt(address, X.nbytes)
    block = native.alloc(X.nbytes)
    native.record()
    native.copy(block.address, address, X.nbytes)
    graph = native.recorded()
    native.replay(graph)
    np.testing.assert_array_equal(native.fetch(block, X.nbytes).view(np.float32).reshape(X.shape), X)
    driver.give_back(address)
    with pytest.raises(RuntimeError, match="replaying: an illegal memory access was encountered"):
        native.replay(graph)
    driver.fault()
    check(program())
