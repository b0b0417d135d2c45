"""Memory spaces: the host's memory, and the memory that a device has of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemorySpace:
    """The memory that elements lie in. kind: "host", or the kind of device; index: the device's number. Code that runs on any
    device of a kind is generated for its first."""

    kind: str
    index: int = 0

    @property
    def is_host(self) -> bool:
        return self == HOST


HOST = MemorySpace("host")
