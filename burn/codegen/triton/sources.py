"""Printed kernels as `worker.py` gets them: `Source`, and the GPU to compile for, `Machine`.

This module imports little: each process that compiles kernels imports it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Triton's target: "cuda" and a compute capability such as 90, or "hip" and an architecture. warp: threads in a
    warp."""

    kind: str
    architecture: int | str
    warp: int

    @staticmethod
    def named(kind: str, architecture: str, warp: int) -> Machine:
        """architecture: "sm_90", "gfx942"."""
        return Machine(kind, int(architecture.removeprefix("sm_")) if kind == "cuda" else architecture, warp)

    @property
    def name(self) -> str:
        """The architecture: "sm_90", "gfx942"."""
        return f"sm_{self.architecture}" if self.kind == "cuda" else str(self.architecture)

    @property
    def code(self) -> str:
        """The kind of machine code."""
        return "cubin" if self.kind == "cuda" else "hsaco"


@dataclass(frozen=True)
class Source:
    """A function, and the properties of its arguments: Triton's types in order ("constexpr" for those in `constants`),
    and known divisors (the argument's number, the divisor)."""

    name: str
    text: str
    types: tuple[str, ...]
    constants: tuple[tuple[int, int], ...]  # by argument number
    named: tuple[tuple[str, int], ...]  # constants after the arguments
    multiples: tuple[tuple[int, int], ...]
    wide: bool  # indices have 64 bits
    warps: int
    stages: int
    nodes: tuple[str, ...] = ()  # source nodes
    scratch: int = 0  # bytes of memory per program
    registers: int = 0  # of a thread at entry, if not 0
    early: bool = False  # starts before the kernel before it ends
    shared: int = 0  # bytes of shared memory behind Triton's own (`staging.py`)

    @property
    def digest(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]
