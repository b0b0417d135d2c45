"""Cards that this machine need not have: simulated_driver.c, compiled when the first test asks for it."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

Kernel = Callable[[str, str, int, int, int, list[int]], None]
"""Of a kernel's image, the function's name, blocks, threads of a block, bytes of shared memory, arguments."""

_LAUNCHED = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_char_p, *[ctypes.c_uint32] * 3, ctypes.POINTER(ctypes.c_void_p)
)


class Simulation:
    """A simulated driver. `path` is the library to open devices with: `Device("cuda", 0, path)`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.library = ctypes.CDLL(path)
        self.library.burn_simulated_alive.restype = ctypes.c_int64
        self.library.burn_simulated_reach.restype = ctypes.c_int64
        self._errors: list[Exception] = []
        self._callback: Any = None

    def on_launch(self, kernel: Kernel) -> None:
        """Every launch calls this from now on. What it raises comes out of `check`."""

        def launched(image: bytes, function: bytes, blocks: int, threads: int, shared: int, parameters: Any) -> None:
            words = []
            while parameters[len(words)]:
                words.append(ctypes.c_int64.from_address(parameters[len(words)]).value)
            try:
                kernel(image.decode(), function.decode(), blocks, threads, shared, words)
            except Exception as error:
                self._errors.append(error)

        self._callback = _LAUNCHED(launched)
        self.library.burn_simulated_on_launch(self._callback)

    def check(self) -> None:
        """Raises what a kernel raised, and fails where memory or a handle was misused, since the last check."""
        text = ctypes.create_string_buffer(256)
        self.library.burn_simulated_fault(text)
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]
        assert text.value == b"", text.value.decode()

    def fault(self) -> str:
        """What was misused first since the last check; "" for nothing."""
        text = ctypes.create_string_buffer(256)
        self.library.burn_simulated_fault(text)
        return text.value.decode()

    def alive(self, what: str) -> int:
        """How many there are of "memory" (blocks that the driver gave), "event", "module", "graph" ..."""
        return self.library.burn_simulated_alive(what.encode())

    def reach(self, address: int) -> int:
        """Bytes from an address on a device to the end of its block; 0 where there is none."""
        return self.library.burn_simulated_reach(ctypes.c_uint64(address))

    def fail(self, function: str, code: int, after: int = 0) -> None:
        """Lets a call of the driver's function fail: the next one after `after` others."""
        self.library.burn_simulated_fail(function.encode(), code, after)

    @contextmanager
    def lazy(self) -> Iterator[None]:
        """Work is done no sooner than somebody waits for it."""
        self.library.burn_simulated_be_lazy(1)
        yield
        self.library.burn_simulated_be_lazy(0)


@cache
def _built() -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = Path(mkdtemp(prefix="burn-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "driver.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-fvisibility=hidden", "-shared", "-fPIC"]
    source = Path(__file__).with_name("simulated_driver.c")
    subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lpthread"], check=True)
    return library


@cache
def simulation() -> Simulation:
    """The driver that this process's tests share: two cards of 1 GB."""
    return Simulation(str(_built()))


def another_driver(folder: Path) -> str:
    """A driver of its own, which has not been started, for tests that set the environment (BURN_SIMULATED_MEMORY ...)."""
    path = folder / f"driver{len(os.listdir(folder))}.so"
    shutil.copy(_built(), path)
    return str(path)
