"""Devices of programs and tensors: `device("cuda:1")`.

A device's name is its kind and its number: "cpu", "cuda" (the first GPU of that kind), "cuda:1". GPUs are used through their
driver's library, which is opened at the first use. Running a program needs no other part of a toolkit.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from burn.errors import DeviceError, Problem
from burn.runtime import _native, registry
from burn.runtime.artefact import Target
from burn.runtime.host import processor
from burn.runtime.memory import HOST, MemorySpace

if TYPE_CHECKING:
    from burn.runtime.loader import Loader


_NAME = r"([a-z]+)(?::(\d{1,4}))?"


@dataclass(frozen=True)
class Device:
    """A kind of device and a number. See `device`."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.memory.is_host else f"{self.kind}:{self.index}"

    @property
    def native_spec(self) -> tuple[str, int, str | None] | None:
        """The arguments of the native runtime; None for a device that computes in host memory."""
        return None if self.memory.is_host else (self.kind, self.index, library(self.kind))

    @property
    def native(self) -> Any:
        """The opened GPU. Raises DeviceError."""
        return _opened(self.kind, self.index, library(self.kind))

    @property
    def memory(self) -> MemorySpace:
        """The memory of its programs."""
        entry = registry.find(self.kind)  # a package may name kinds that this version does not have
        return HOST if entry is not None and not entry.own_memory else MemorySpace(self.kind, self.index)

    @property
    def loader(self) -> Loader:
        """Runs artefacts for this kind of device."""
        entry = registry.find(self.kind)
        return (registry.NATIVE if entry is None else entry.loader)()

    @property
    def is_present(self) -> bool:
        """True if this process can use it."""
        return self.memory.is_host or count(self.kind) > self.index

    @property
    def architecture(self) -> str:
        """The target architecture of its code ("sm_90"); "" for the CPU, where the features decide. Raises DeviceError."""
        return "" if self.memory.is_host else self.preview()["architecture"]

    @property
    def hardware(self) -> str:
        """The hardware that measured times depend on: the GPU's name, or the processor and the number of threads. Raises
        DeviceError."""
        return f"{processor()} {_native.num_threads()} threads" if self.memory.is_host else self.preview()["name"]

    def facts(self) -> dict[str, Any]:
        """The driver's facts about a GPU: name, architecture, memory and more."""
        return self.native.facts()

    def preview(self) -> Mapping[str, Any]:
        """The facts that do not change, which the driver has before the GPU is opened. Raises DeviceError."""
        return _previewed(self.kind, self.index, library(self.kind))

    def open_beside(self) -> None:
        """Begins to open the GPU, which takes some tenths of a second, in a thread. A failure is left to the first use."""
        if self.memory.is_host or (named := (self.kind, self.index, library(self.kind))) in _begun:
            return
        _begun.add(named)
        with suppress(RuntimeError):  # no more threads can be started, as at the end of the process
            threading.Thread(target=_open_quietly, args=named, name="burn opens a device").start()

    def wait(self) -> None:
        """Waits for all submitted work; returns at once for the CPU. Raises DeviceError, and the RunError of an earlier call
        that failed and whose results were not read."""
        if not self.memory.is_host:
            self.native.wait()

    def cannot_run(self, target: Target) -> list[Problem]:
        """The reasons why code for `target` cannot run here; empty if it can."""
        if target.kind != self.kind:
            return [Problem(f"it was compiled for {target.gpu or 'the CPU'} and the device is {self}")]
        if self.memory.is_host:
            return []
        try:
            facts = self.preview()
        except DeviceError as error:
            return list(error.problems)
        if facts["architecture"] == target.architecture:
            return []
        here = f"{facts['name']}, {facts['architecture']}"
        return [Problem(f"it was compiled for {target.architecture} and {self} is {here}", hint="compile it again")]


CPU = Device("cpu")


def device(name: str | Device) -> Device:
    """The device of a name such as "cpu", "cuda" or "cuda:1". Raises DeviceError for other names. The first use of a GPU checks
    that it exists."""
    if isinstance(name, Device):
        return name
    match = re.fullmatch(_NAME, name) if isinstance(name, str) else None
    entry = None if match is None else registry.find(match[1])
    if match is None or entry is None or (not entry.own_memory and int(match[2] or 0)):
        known = ", ".join(registry.kinds())
        raise DeviceError(f"there is no device {name!r}", [f"devices are {known}, with a number: cuda:1"])
    return CPU if match[1] == CPU.kind else Device(match[1], int(match[2] or 0))


def device_of(target: Target) -> Device:
    """The first device of the kind that code is for."""
    return CPU if target.kind == CPU.kind else Device(target.kind)


def named(target: Any) -> Device | None:
    """The device that `target` names, a Device or a library's own kind of that among them; None where it is something else, such
    as an element type."""
    if isinstance(target, Device):
        return target
    name = str(target)
    return device(name) if registry.find(name.partition(":")[0]) else None


def count(kind: str = "cuda") -> int:
    """The number of GPUs of a kind that this process can use; 0 without a driver."""
    try:
        return max(0, _native.device_count(kind, library(kind)))
    except RuntimeError:
        return 0


def library(kind: str = "cuda") -> str | None:
    """The file of a kind's driver, from the environment's variable or where its package has it; None: the default of the
    native runtime."""
    return registry.entry(kind).driver()


_begun: set[tuple[str, int, str | None]] = set()
"""The GPUs that a thread has begun to open."""


def _open_quietly(kind: str, index: int, path: str | None) -> None:
    with suppress(DeviceError):
        _opened(kind, index, path)


@functools.lru_cache(maxsize=64)
def _opened(kind: str, index: int, path: str | None) -> Any:
    try:
        return _native.Device(kind, index, path)
    except RuntimeError as error:
        raise _unusable(kind, index, error) from None


@functools.lru_cache(maxsize=64)
def _previewed(kind: str, index: int, path: str | None) -> Mapping[str, Any]:
    try:
        return MappingProxyType(_native.device_preview(kind, index, path))
    except RuntimeError as error:
        raise _unusable(kind, index, error) from None


def _unusable(kind: str, index: int, error: RuntimeError) -> DeviceError:
    return DeviceError(f"{kind}:{index} cannot be used", [Problem(str(error))])
