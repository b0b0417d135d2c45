"""Where programs run and tensors lie: `device("cuda:1")`.

A device's name is its kind and its number: "cpu", "cuda" (the first card of that kind), "cuda:1". Cards are reached through their
driver's library, which is opened when the first one is asked for: no other part of a toolkit is needed to run a program.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from burn.errors import DeviceError, Problem
from burn.runtime import _native
from burn.runtime.artefact import Target
from burn.runtime.host import processor
from burn.runtime.memory import HOST, MemorySpace
from burn.variables import variable


@dataclass(frozen=True)
class Kind:
    """A kind of device. own_memory: devices have memory of their own, and are reached through their driver; the others compute on
    the host's memory."""

    own_memory: bool


KINDS: dict[str, Kind] = {"cpu": Kind(own_memory=False), "cuda": Kind(own_memory=True)}
"""The kinds of devices by name; the registry of back ends adds to them."""

_NAME = re.compile(r"([a-z]+)(?::(\d{1,4}))?")


@dataclass(frozen=True)
class Device:
    """A kind of device and a number. See `device`."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.memory.is_host else f"{self.kind}:{self.index}"

    @property
    def card(self) -> tuple[str, int, str | None] | None:
        """As the native part takes it; None for a device that computes on the host's memory."""
        return None if self.memory.is_host else (self.kind, self.index, library())

    @property
    def native(self) -> Any:
        """The card, opened. Raises DeviceError."""
        return _opened(self.kind, self.index, library())

    @property
    def memory(self) -> MemorySpace:
        """The memory that programs on it compute on."""
        kind = KINDS.get(self.kind)  # of a package there may be kinds that this version does not know
        return HOST if kind is not None and not kind.own_memory else MemorySpace(self.kind, self.index)

    @property
    def is_present(self) -> bool:
        """Whether this process can use it."""
        return self.memory.is_host or count(self.kind) > self.index

    @property
    def architecture(self) -> str:
        """What code for it is compiled for ("sm_90"); "" for the CPU, whose features decide. Raises DeviceError."""
        return "" if self.memory.is_host else self.facts()["architecture"]

    @property
    def hardware(self) -> str:
        """All that times depend on besides the program: the GPU's name, or the processor and the number of threads. Raises
        DeviceError."""
        return f"{processor()} {_native.num_threads()} threads" if self.memory.is_host else self.facts()["name"]

    def facts(self) -> dict[str, Any]:
        """What the driver says of a card: name, architecture, memory and more."""
        return self.native.facts()

    def wait(self) -> None:
        """Until all that was asked of it is done; the CPU has nothing to wait for. Raises DeviceError, and the RunError of a call
        that failed and whose results nobody has fetched."""
        if not self.memory.is_host:
            self.native.wait()

    def cannot_run(self, target: Target) -> list[Problem]:
        """Why code for `target` cannot run here; nothing when it can."""
        if target.kind != self.kind:
            return [Problem(f"it was compiled for {target.card or 'the CPU'} and the device is {self}")]
        if self.memory.is_host:
            return []
        try:
            facts = self.facts()
        except DeviceError as error:
            return list(error.problems)
        if facts["architecture"] == target.architecture:
            return []
        here = f"{facts['name']}, {facts['architecture']}"
        return [Problem(f"it was compiled for {target.architecture} and {self} is {here}", hint="compile it again")]


CPU = Device("cpu")


def device(name: str | Device) -> Device:
    """The device of a name such as "cpu", "cuda" or "cuda:1". Raises DeviceError for what is no such name; whether there is such
    a card is asked when it is used."""
    if isinstance(name, Device):
        return name
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or match[1] not in KINDS or (not KINDS[match[1]].own_memory and int(match[2] or 0)):
        raise DeviceError(f"there is no device {name!r}", [f"devices are {', '.join(KINDS)}, with a number: cuda:1"])
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
    return device(name) if name.partition(":")[0] in KINDS else None


def count(kind: str = "cuda") -> int:
    """How many cards of a kind this process can use; 0 where there is no driver."""
    try:
        return max(0, _native.device_count(kind, library()))
    except RuntimeError:
        return 0


def library() -> str | None:
    """The driver's file where it is not in its usual place: the environment's BURN_CUDA_DRIVER."""
    return variable("BURN_CUDA_DRIVER")


@functools.lru_cache(maxsize=64)
def _opened(kind: str, index: int, path: str | None) -> Any:
    try:
        return _native.Device(kind, index, path)
    except RuntimeError as error:
        raise DeviceError(f"{kind}:{index} cannot be used", [Problem(str(error))]) from None
