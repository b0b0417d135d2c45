"""GPU targets of binaries (`registry.architectures`): their names, and kernels as bytes. The GPU need not be present.

Code runs only on GPUs of its own architecture: kernels are tuned to its memory and instructions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from burn.errors import CompileError, Problem, near
from burn.runtime.artefact import CODE_ALIGNMENT, Artefact, Buffer
from burn.runtime.device import Device
from burn.runtime.registry import architectures


@dataclass(frozen=True)
class GpuTarget:
    """A GPU target: "cuda" and an architecture such as "sm_90"."""

    kind: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.architecture}"

    @property
    def device(self) -> Device:
        """A device of this kind."""
        return Device(self.kind)

    def check(self, program: Artefact) -> None:
        """Raises CompileError if kernels need more shared memory than the GPU has."""
        most = architectures()[str(self)]
        problems = [
            Problem(f"{image.name} takes {image.shared} bytes of shared memory; a block has {most}")
            for image in program.images
            if image.shared > most
        ]
        if problems:
            raise CompileError(f"the program does not fit {self}", problems)


def names_device(target: str) -> bool:
    """True for a GPU target ("cuda:sm_90"), false for a platform."""
    return ":" in target


def find(name: str) -> GpuTarget:
    """The GPU target of a name such as "cuda:sm_90". Raises CompileError."""
    known = architectures()
    if name not in known:
        raise CompileError("there is no such target", [Problem(f"'{name}' is no known GPU", hint=near(name, known))])
    kind, _, architecture = name.partition(":")
    return GpuTarget(kind, architecture)


@dataclass(frozen=True)
class Images:
    """The kernels of several versions of a program. `pieces`, concatenated, are the bytes; `offsets` are those of each
    version's kernels. Equal kernels are stored once."""

    pieces: Sequence[Buffer]
    offsets: Sequence[Sequence[int]]


def images(programs: Sequence[Artefact]) -> Images:
    pieces: list[Buffer] = []
    known: dict[bytes, int] = {}
    offsets: list[list[int]] = []
    at = 0
    for program in programs:
        offsets.append([])
        for image in program.images:
            size = memoryview(image.data).nbytes
            digest = hashlib.sha256(image.data).digest()
            if digest not in known:
                known[digest] = at
                padding = -size % CODE_ALIGNMENT
                pieces += [image.data, bytes(padding)]
                at += size + padding
            offsets[-1].append(known[digest])
    return Images(pieces, offsets)
