"""Memory spaces of an entry function: the runtime's functions for each, and the copies between them.

A program's tensors are in the memory space of its kernels (`Kernels.memory`), except for strings and lists, which are
addresses of records in host memory. An op or launch in another space gets copies of its operands, and its results are copied
back: `EntryBuilder.operand`, `draft` and `deliver`.
"""

from __future__ import annotations

from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.runtime.memory import HOST, MemorySpace

HOST_DTYPES = ("string", "list")
"""Element types that exist in the host's memory alone."""

SEND, FETCH = "burn_rt_send", "burn_rt_fetch"


def space_of(value: ir.Value, memory: MemorySpace) -> MemorySpace:
    """The memory space of a value in a program whose tensors lie in `memory`."""
    return HOST if type_of(value).dtype in HOST_DTYPES else memory


def function(space: MemorySpace, what: str) -> str:
    """The runtime's function for a space: "alloc", "grow", "copy", "read" or "write"."""
    return f"burn_rt_{what}" if space.is_host else f"burn_rt_device_{what}"
