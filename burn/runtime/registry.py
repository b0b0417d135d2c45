"""The kinds of devices: `register`, and one entry for each, with its back end, its loader and its memory.

A back end is a folder in `burn/codegen/` and an entry here. No other code in burn names a kind of device to choose code by. An
entry names its functions by module, so that reading the table imports neither a compiler nor a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from burn.errors import CompileError
from burn.variables import variable

if TYPE_CHECKING:
    from burn.options import Options
    from burn.runtime.loader import Loader

PORTABLE = "portable"
"""The architecture that stands for all devices of a kind: kernels are printed for it, and no code is made."""


def _late(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported at its first call."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


NATIVE = _late("burn.runtime.native_loader", "loader")
"""The native runtime, which runs machine code and refuses kinds of devices that it has no driver for."""


class Entry(NamedTuple):
    """A kind of device.

    make: the back end for a compilation.

    begin: starts what the compiler needs beside Python, before the compiler is imported.

    loader: runs its artefacts; by default the native runtime does.

    own_memory: its devices have their own memory and are used through a driver; others compute in host memory.

    packages: the distributions that generate its code. Their versions are part of the cache's key.

    language, suffix, about: of its listings, as `--emit` names the language, of their files, and in its help.

    size_hints: the code depends on the usual sizes of symbols (`Program.size_hints`).

    driver: the file of its driver's library; None for the usual one.

    tensor_cores: there are TF32 multiplications on its GPUs (`burn.options.TF32`).

    architectures: those that binaries are made for, with the bytes of shared memory of a block of threads. None for a device
    that is the platform's CPU."""

    make: Callable[[Options], Any]
    loader: Callable[[], Loader] = NATIVE
    own_memory: bool = False
    packages: tuple[str, ...] = ()
    language: str = ""
    suffix: str = ""
    about: str = ""
    size_hints: bool = False
    driver: Callable[[], str | None] = lambda: None
    begin: Callable[[], None] = lambda: None
    tensor_cores: bool = False
    architectures: Callable[[], Mapping[str, int]] = dict


_ENTRIES: dict[str, Entry] = {
    "cpu": Entry(
        _late("burn.codegen.cpu.backend", "for_options"),
        packages=("torch-mlir",),
        language="mlir",
        suffix=".mlir",
        about="the program as MLIR of upstream's dialects",
    ),
    "cuda": Entry(
        _late("burn.codegen.triton.backend", "for_options"),
        own_memory=True,
        packages=("torch-mlir", "triton"),
        language="triton",
        suffix=".py",
        about="the GPU kernels, as a module of Triton's language",
        size_hints=True,
        driver=lambda: variable("BURN_CUDA_DRIVER"),
        begin=_late("burn.codegen.triton.workers", "begin"),
        tensor_cores=True,
        architectures=_late("burn.codegen.triton.abilities", "shared_memory"),
    ),
    "hip": Entry(
        _late("burn.codegen.triton.backend", "for_options"),
        own_memory=True,
        packages=("torch-mlir", "triton"),
        size_hints=True,
        driver=lambda: variable("BURN_HIP_DRIVER"),
        begin=_late("burn.codegen.triton.workers", "begin"),
    ),
    "wgpu": Entry(
        _late("burn.codegen.wgsl.backend", "for_options"),
        own_memory=True,
        packages=("torch-mlir",),
        language="wgsl",
        suffix=".wgsl",
        about="the GPU kernels as WGSL, WebGPU's language",
        driver=_late("burn.runtime.webgpu", "library"),
        architectures=_late("burn.codegen.wgsl.limits", "architectures"),
    ),
    "reference": Entry(
        _late("burn.codegen.reference.backend", "for_options"),
        loader=_late("burn.codegen.reference.loader", "loader"),
        packages=("torch-mlir",),
    ),
    "xla": Entry(
        _late("burn.codegen.xla.backend", "for_options"),
        loader=_late("burn.codegen.xla.loader", "loader"),
        packages=("torch-mlir",),
        language="stablehlo",
        suffix=".mlir",
        about="the program as StableHLO, for sizes that are numbers",
    ),
}


def register(kind: str, entry: Entry) -> None:
    """Adds a kind of device, which `burn.load(device=kind)` then accepts. Raises CompileError for a kind that has an entry."""
    if kind in _ENTRIES:
        raise CompileError(f"there is a back end for {kind!r} already")
    _ENTRIES[kind] = entry


def unregister(kind: str) -> None:
    """Removes a kind of device, for tests."""
    del _ENTRIES[kind]


def kinds() -> tuple[str, ...]:
    """The names of all kinds."""
    return tuple(_ENTRIES)


def find(kind: str) -> Entry | None:
    """The entry of a kind; None for an unknown one, which a file may name that another version of burn wrote."""
    return _ENTRIES.get(kind)


def entry(kind: str) -> Entry:
    """Raises CompileError if there is no back end for the kind of device."""
    if kind not in _ENTRIES:
        raise CompileError(f"there is no back end for {kind}", [f"there are {', '.join(_ENTRIES)}"])
    return _ENTRIES[kind]


def architectures() -> dict[str, int]:
    """The devices that binaries are made for ("cuda:sm_90"), with the bytes of shared memory that a block may have."""
    return {f"{kind}:{name}": size for kind, entry in _ENTRIES.items() for name, size in entry.architectures().items()}


def languages() -> dict[str, str]:
    """The languages of listings, each with the kind of device."""
    return {entry.language: kind for kind, entry in _ENTRIES.items() if entry.language}
