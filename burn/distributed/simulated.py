"""Simulated devices: one CPU as many, to try a mesh and to count what it would send."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from burn.errors import CompileError, DeviceError, Problem


def simulate(devices: int) -> None:
    """Makes JAX have so many devices on this machine's CPU, before anything else uses JAX. They share its cores and memory, so
    only numbers and bytes are those of real devices. Raises DeviceError if JAX has its devices already, and CompileError
    without JAX."""
    try:
        import jax
    except ImportError as error:
        raise CompileError(
            "simulated devices need JAX", [Problem(str(error), hint="pip install 'burn-mlir[jax]'")]
        ) from error
    bridge: Any = import_module("jax._src.xla_bridge")
    if bridge.backends_are_initialized():
        if jax.default_backend() == "cpu" and jax.device_count() >= devices:
            return
        hint = "call burn.distributed.simulate at the beginning"
        raise DeviceError("JAX was used before", [Problem(f"it has {jax.device_count()} devices", hint=hint)])
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
