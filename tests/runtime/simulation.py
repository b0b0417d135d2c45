"""Simulated GPUs: simulated_driver.c, compiled by the first test that uses it.

`simulation` is a driver in the test's own process, `Elsewhere` one for programs in others (forwarded_launches.c).
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
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
        self.library.burn_simulated_changed_nodes.restype = ctypes.c_int64
        self.library.burn_simulated_stream.restype = ctypes.c_void_p
        self._errors: list[Exception] = []
        self._callback: Any = None

    def on_launch(self, kernel: Kernel) -> None:
        """Every launch calls this from now on. `check` raises its exceptions."""

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
        """The first misuse since the last check; "" for none."""
        text = ctypes.create_string_buffer(256)
        self.library.burn_simulated_fault(text)
        return text.value.decode()

    def alive(self, what: str) -> int:
        """How many there are of "memory" (blocks that the driver gave), "event", "module", "graph" ..."""
        return self.library.burn_simulated_alive(what.encode())

    def reach(self, address: int) -> int:
        """Bytes from an address on a device to the end of its block; 0 where there is none."""
        return self.library.burn_simulated_reach(ctypes.c_uint64(address))

    def adopt(self, address: int, bytes_: int, device: int = 0) -> None:
        """Makes memory of this process a device's, as if another library had allocated it."""
        self.library.burn_simulated_adopt(ctypes.c_uint64(address), ctypes.c_size_t(bytes_), device)

    def give_back(self, address: int) -> None:
        """The reverse of `adopt`."""
        self.library.burn_simulated_give_back(ctypes.c_uint64(address))

    def stream(self) -> int:
        """A stream of another library's."""
        return self.library.burn_simulated_stream()

    def finish(self, stream: int) -> None:
        """Runs what a stream has been given."""
        self.library.burn_simulated_finish(ctypes.c_void_p(stream))

    def changed_nodes(self) -> int:
        """How many nodes of graphs got new parameters so far."""
        return self.library.burn_simulated_changed_nodes()

    def fail(self, function: str, code: int, after: int = 0) -> None:
        """Lets a call of the driver's function fail: the next one after `after` others."""
        self.library.burn_simulated_fail(function.encode(), code, after)

    @contextmanager
    def lost(self, code: int = 719) -> Iterator[None]:
        """Each call fails, as those of a driver whose device is gone."""
        self.library.burn_simulated_lose(code)
        yield
        self.library.burn_simulated_lose(0)

    @contextmanager
    def lazy(self) -> Iterator[None]:
        """Work is delayed until a synchronisation."""
        self.library.burn_simulated_be_lazy(1)
        yield
        self.library.burn_simulated_be_lazy(0)


@cache
def _built(name: str = "driver.so", *further: str, source: str = "simulated_driver.c") -> Path:
    """The library of simulated_driver.c, or another source, and of further files."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = Path(mkdtemp(prefix="burn-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / name
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-fvisibility=hidden", "-shared", "-fPIC"]
    sources = [str(Path(__file__).with_name(each)) for each in (source, *further)]
    subprocess.run([compiler, *flags, *sources, "-o", str(library), "-lpthread"], check=True)
    return library


@cache
def simulation() -> Simulation:
    """The driver that this process's tests share: two GPUs of 1 GB."""
    return Simulation(str(_built()))


@cache
def simulated_hip() -> Simulation:
    """The same as AMD's library: simulated_hip.c, which includes the other."""
    return Simulation(str(_built("hip.so", source="simulated_hip.c")))


def another_driver(folder: Path) -> str:
    """A driver of its own, which has not been started, for tests that set the environment (BURN_SIMULATED_MEMORY ...)."""
    path = folder / f"driver{len(os.listdir(folder))}.so"
    shutil.copy(_built(), path)
    return str(path)


# ---- for other processes ---------------------------------------------------------------------------------------------

_HEADER, _WORD, _REGION, _COUNT = struct.Struct("6I"), struct.Struct("Qq"), struct.Struct("Qq"), struct.Struct("I")
_FAULT, _ALIGNMENT = 256, 512


class Elsewhere:
    """A libcuda.so.1 for programs that are started with `environment`.

    Their launches call `kernel` in this process, on copies of their memory with the same alignment. `reach` gives the number of
    bytes from an address to the end of a copy."""

    def __init__(self, folder: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.bind(str(folder / "launches"))
        self._line.listen()
        driver = _built("libcuda.so.1", "forwarded_launches.c")
        self.environment = {
            "LD_LIBRARY_PATH": str(driver.parent),
            "BURN_SIMULATED_LAUNCHES": str(folder / "launches"),
        }
        self.kernel: Kernel = lambda *_: None
        self.launches: list[tuple[str, int]] = []  # each function's name and its shared memory
        self._blocks: list[np.ndarray[Any, Any]] = []
        self._wrong: list[BaseException] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def reach(self, address: int) -> int:
        for block in self._blocks:
            if 0 <= address - block.ctypes.data < block.nbytes:
                return block.ctypes.data + block.nbytes - address
        return 0

    def check(self) -> None:
        """Raises what went wrong since the last check, in a kernel or with a program's memory and handles. The programs must have
        ended."""
        wrong, self._wrong = self._wrong, []
        if wrong:
            raise wrong[0]

    def close(self) -> None:
        self._line.close()

    def _serve(self) -> None:
        while True:
            try:
                program, _ = self._line.accept()
            except OSError:  # closed
                return
            with program, program.makefile("rb") as read:
                try:
                    while self._launch(program, read):
                        pass
                except Exception as error:  # the program ends, as it gets no answer
                    self._wrong.append(error)

    def _launch(self, program: socket.socket, read: Any) -> bool:
        """One message; false for the last."""
        blocks, threads, shared, image, function, count = _HEADER.unpack(read.read(_HEADER.size))
        if not threads:
            fault = read.read(_FAULT).split(b"\0")[0].decode()
            assert fault == "", fault
            return False
        code, name = (read.read(size).decode("latin-1") for size in (image, function))
        words = [_WORD.unpack(read.read(_WORD.size)) for _ in range(count)]
        self.launches.append((name, shared))
        ends = {value + reach for value, reach in words if reach}
        begins = {end: min(value for value, reach in words if reach and value + reach == end) for end in ends}
        regions = [(begin, end - begin) for end, begin in begins.items()]
        program.sendall(_COUNT.pack(len(regions)) + b"".join(_REGION.pack(*region) for region in regions))
        self._blocks = [_copy(begin, read.read(size)) for begin, size in regions]
        moved = {end: block.ctypes.data - begins[end] for end, block in zip(begins, self._blocks, strict=True)}
        here = [value + moved[value + reach] if reach else value for value, reach in words]
        self.kernel(code, name, blocks, threads, shared, [ctypes.c_int64(word).value for word in here])
        for block in self._blocks:
            program.sendall(block.data)
        return True


def _copy(begin: int, data: bytes) -> np.ndarray[Any, Any]:
    room = np.empty(len(data) + _ALIGNMENT, np.uint8)
    at = (begin - room.ctypes.data) % _ALIGNMENT
    room[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return room[at : at + len(data)]
