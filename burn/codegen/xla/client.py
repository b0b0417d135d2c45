"""XLA's PJRT client, as JAX has it: modules as text are compiled, arrays go in and come out.

It uses the client below `jax.jit`, which keeps a module's element types: int64 and float64 stay 64 bits wide. It neither reads
nor changes a setting of the user's JAX.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.errors import CompileError, Problem, RunError

OPTIONS: dict[str, Any] = {"xla_allow_excess_precision": False}
"""Half precision is rounded after each op, as on burn's other devices."""


def check_installed() -> None:
    """Raises CompileError without jax."""
    if importlib.util.find_spec("jax") is None:
        raise CompileError(
            'device="xla" needs JAX', [Problem("jax is not installed", hint="pip install 'burn-mlir[jax]'")]
        )


class Client:
    """The first device that this process has in JAX. Enter at `client`."""

    def __init__(self) -> None:
        check_installed()
        import jax

        xla_client: Any = importlib.import_module("jax._src.lib").xla_client
        self._xla = xla_client
        self.device = jax.local_devices()[0]
        self._sharding = jax.sharding.SingleDeviceSharding(self.device)
        self._array = jax.core.ShapedArray

    def compile(self, text: str) -> Module:
        """Raises CompileError with XLA's reason."""
        xla = self._xla
        options = xla.CompileOptions()
        options.env_option_overrides = list(OPTIONS.items())
        try:
            made = self.device.client.compile_and_load(text, xla.DeviceList((self.device,)), options)
        except Exception as error:  # jaxlib's own kinds, and MLIR's
            raise CompileError("XLA cannot compile the program", [str(error)]) from error
        return Module(made)

    def put(self, array: np.ndarray) -> Any:
        """An array on the device; in host memory without a copy, where its alignment allows that."""
        kind = self._array(array.shape, array.dtype)
        return self._xla.batched_device_put(kind, self._sharding, [array], [self.device], enable_x64=True)

    def get(self, array: Any) -> np.ndarray:
        """An array that the caller may change. In host memory it is XLA's own, without a copy."""
        array.block_until_ready()
        if self.device.platform != "cpu" or not array.size:
            return np.array(array)
        dtype = np.dtype(array.dtype)
        memory = (ctypes.c_uint8 * (array.size * dtype.itemsize)).from_address(array.unsafe_buffer_pointer())
        memory._array = array  # type: ignore[attr-defined]  it keeps the memory
        return np.frombuffer(memory, np.uint8).view(dtype).reshape(array.shape)


class Module:
    """A compiled module."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The results for arrays on the device. Raises RunError."""
        try:
            results = self._executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
        except Exception as error:
            raise RunError("XLA failed to run the program", [str(error)]) from error
        return [parts[0] for parts in results]


_client: Client | None = None
_lock = threading.Lock()


def client() -> Client:
    """The process's client. JAX is imported at the first call. Raises CompileError without jax."""
    global _client
    with _lock:
        if _client is None:
            _client = Client()
        return _client
