"""The back ends, by the kind of device that they generate code for: `backend_for`, and `register` for further ones.

A back end is a folder with a module that has a class or function from `Options` to a `Backend`, and an entry here. Nothing else
in burn names a kind of device to choose code by. Entries are light: a back end is imported when a program is compiled for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from burn.errors import CompileError
from burn.runtime import device as devices
from burn.runtime.device import Device, Kind

if TYPE_CHECKING:
    from burn.codegen.backend import Backend
    from burn.options import Options

PORTABLE = "portable"
"""The architecture that stands for all devices of a kind: kernels are printed for it, and no code is made."""


@dataclass(frozen=True)
class Entry:
    """A back end. make: the back end for a compilation. packages: the distributions that generate its code, whose versions are
    part of what the cache's key holds. language, suffix: what its listings are written in, as `--emit` calls it, and their files'
    ending. about: of a listing. size_hints: its code depends on the sizes that symbols usually have (`Program.usual`).
    architectures: those that binaries are made for, with the bytes of shared memory that a block of threads may have there; none
    for a device that is the platform's CPU."""

    make: Callable[[Options], Backend]
    packages: tuple[str, ...] = ()
    language: str = ""
    suffix: str = ""
    about: str = ""
    size_hints: bool = False
    architectures: Callable[[], Mapping[str, int]] = dict


def _late(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported at its first call."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


_CPU = Entry(
    _late("burn.codegen.cpu.backend", "for_options"),
    ("torch-mlir",),
    "mlir",
    ".mlir",
    "the program as MLIR of upstream's dialects",
)
_TRITON = Entry(
    _late("burn.codegen.triton.backend", "for_options"),
    ("torch-mlir", "triton"),
    "triton",
    ".py",
    "the GPU kernels, as a module of Triton's language",
    size_hints=True,
    architectures=_late("burn.codegen.triton.abilities", "shared_memory"),
)

_ENTRIES: dict[str, Entry] = {"cpu": _CPU, "cuda": _TRITON}


def register(kind: str, entry: Entry, own_memory: bool = False) -> None:
    """Adds a back end for a new kind of device, which `burn.load(device=kind)` then takes. own_memory: its devices compute on
    memory of their own, to which inputs are copied. Raises CompileError for a kind that has a back end."""
    if kind in _ENTRIES:
        raise CompileError(f"there is a back end for {kind!r} already")
    _ENTRIES[kind] = entry
    devices.KINDS[kind] = Kind(own_memory)


def unregister(kind: str) -> None:
    """Takes a back end out again, for tests."""
    del _ENTRIES[kind], devices.KINDS[kind]


def entry(device: Device) -> Entry:
    """Raises CompileError if nothing generates code for the device."""
    if device.kind not in _ENTRIES:
        raise CompileError(f"there is no back end for {device}", [f"there are {', '.join(_ENTRIES)}"])
    return _ENTRIES[device.kind]


def backend_for(options: Options) -> Backend:
    """The back end for a compilation. Raises TypeMismatch for an unknown target, CompileError if there is none for the device,
    and DeviceError for a device that is not there and whose architecture the options leave open."""
    return entry(options.device).make(options)


def architectures() -> dict[str, int]:
    """The devices that binaries are made for ("cuda:sm_90"), with the bytes of shared memory that a block may have."""
    return {f"{kind}:{name}": size for kind, entry in _ENTRIES.items() for name, size in entry.architectures().items()}


def languages() -> dict[str, Device]:
    """The languages of listings, each with the kind of device."""
    return {entry.language: Device(kind) for kind, entry in _ENTRIES.items() if entry.language}
