"""The start of programs on a GPU: kernels and processes of a compilation, and the order of its parts."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.triton import workers
from burn.codegen.triton.backend import GPU, OPS_OF_A_WORKER
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import DeviceError
from burn.runtime import cache, writing
from burn.runtime import device as devices
from burn.runtime.cache import Cache
from burn.runtime.executable import Executable
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.simulation import another_driver, simulation

pytest.importorskip("triton")
pytest.importorskip("onnx")

ROOT = Path(__file__).parents[3]


def encoder(layers: int) -> bytes:
    """The BERT of benchmarks/compile_time.py, narrow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        import compile_time

        return compile_time.encoder(layers, width=64, heads=4, words=50).SerializeToString()


def test_layers_share_their_kernels(gpu: SimulatedGPU) -> None:
    """BERT has 7 kernels, each with 32-bit and 64-bit indices, for any number of layers."""
    counts = []
    for layers in (2, 4):
        burn.load(encoder(layers), device="cuda")
        counts.append((len(gpu.sources), sum(source.wide for source in gpu.sources)))
        gpu.sources.clear()
    assert counts == [(14, 7), (14, 7)]


def test_a_kernel_is_the_same_behind_other_kernels(gpu: SimulatedGPU) -> None:
    """The cache keeps kernels by their text: a changed model compiles only the kernels that changed."""
    found = []
    for function in (lambda x: x @ x, burn.softmax, lambda x: burn.softmax(x @ x)):
        burn.compile(function, (np.ones((48, 48), np.float32),), device="cuda", cache=False)
        found.append([replace(source, nodes=()) for source in gpu.sources])
        gpu.sources.clear()
    matmul, softmax, both = map(set, found)
    assert len(both) == 2 and both == matmul | softmax


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The processes that are started, which do nothing, on a machine with four cores."""

    class Process:
        is_alive = True

        def __init__(self) -> None:
            self.variables = workers.variables()
            found.append(self)

        def stop(self) -> None:
            pass

    found: list[Any] = []
    workers.stop()
    monkeypatch.setattr(workers, "_Worker", Process)
    monkeypatch.setattr(workers, "usable_cores", lambda: 4)
    yield found
    workers.stop()


def program(count: int) -> Program:
    """A chain of ops."""
    made = Program.create([("x", TensorType("float32", (2,)))])
    with made.building():
        value = made.inputs[0]
        for _ in range(count):
            value = ops.exp(value)
    made.finish([("y", value)])
    return made


def test_the_number_of_processes(started: list[Any]) -> None:
    """Two for a small program, more for a large one, and no more than cores."""
    workers.begin()
    assert len(started) == workers.FIRST == 2
    workers.begin()
    assert len(started) == 2
    for count, wanted in ((1, 2), (2 * OPS_OF_A_WORKER, 3), (9 * OPS_OF_A_WORKER, 4)):
        GPU().begin(program(count))
        assert len(started) == wanted


CHILD = """
import sys
from tests.runtime.simulation import Simulation
from burn.runtime import registry
import burn.codegen.triton.workers as workers

seen = []
workers.start = lambda count: seen.append((count, "burn.compiler" in sys.modules, "torch_mlir" in sys.modules))
workers.compiled = lambda sources, machine: [(source.name, b"image", 0, 32 * source.warps) for source in sources]
import burn
burn.load(sys.argv[1], device="cuda")
print(seen)
"""


def test_processes_start_before_the_compiler_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CUDA_DRIVER", another_driver(tmp_path))
    (tmp_path / "model.onnx").write_bytes(encoder(1))
    command = [sys.executable, "-c", CHILD, str(tmp_path / "model.onnx")]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[(2, False, False), (1, True, True)]"


def test_a_program_is_kept_while_its_constants_are_sent(
    gpu: SimulatedGPU, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large program's executable is made while a thread writes the cache."""
    order, made = [], threading.Event()
    put, init = Cache.put, Executable.__init__

    def slow(cache: Cache, *rest: Any) -> None:
        assert made.wait(300)
        put(cache, *rest)
        order.append("kept")

    def noted(executable: Executable, *rest: Any) -> None:
        init(executable, *rest)
        order.append("made")
        made.set()

    monkeypatch.setattr(cache, "LARGE", 0)
    monkeypatch.setattr(Cache, "put", slow)
    monkeypatch.setattr(Executable, "__init__", noted)
    first = burn.load(encoder(1), device="cuda")
    writing.wait()
    assert order == ["made", "kept"] and len(gpu.sources) > 0
    compiled = len(gpu.sources)
    again = burn.load(encoder(1), device="cuda")
    assert len(gpu.sources) == compiled and order == ["made", "kept", "made"]
    x = np.ones((1, 3), np.int64)
    np.testing.assert_array_equal(first(x), again(x))


def test_an_error_of_the_cache_is_raised(gpu: SimulatedGPU, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Cache, "put", fails)
    with pytest.raises(ZeroDivisionError):
        burn.load(encoder(1), device="cuda")


def test_a_device_is_described_before_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of a key need no context, which a thread makes meanwhile."""
    monkeypatch.setenv("BURN_CUDA_DRIVER", another_driver(tmp_path))
    opened: list[str] = []
    native = devices._native.Device
    monkeypatch.setattr(
        devices._native, "Device", lambda *named: opened.append(threading.current_thread().name) or native(*named)
    )
    device = devices.device("cuda:1")
    assert (device.architecture, device.preview()["index"], opened) == ("sm_90", 1, [])
    device.open_beside()
    device.open_beside()
    facts = device.facts()
    assert set(facts) - set(device.preview()) == {"free", "used", "kept"}
    assert opened.count("burn opens a device") == 1
    assert all(device.preview()[name] == facts[name] for name in device.preview())


def test_a_device_that_cannot_be_opened_is_an_error_of_its_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CUDA_DRIVER", str(tmp_path / "missing.so"))
    devices.device("cuda").open_beside()
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        devices.device("cuda").preview()
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        burn.load(encoder(1), device="cuda")
    monkeypatch.setenv("BURN_CUDA_DRIVER", simulation().path)
    with pytest.raises(DeviceError, match="numbered from 0 to 1"):
        devices.device("cuda:7").preview()
