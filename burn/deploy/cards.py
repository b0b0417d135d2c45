"""Cards that binaries are made for, which need not be here (`registry.architectures`): their names, and their kernels as bytes.

A card's code runs on cards of its own architecture alone: kernels are shaped for the memory and the instructions of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from burn.codegen.registry import architectures
from burn.errors import CompileError, Problem, near
from burn.runtime.artefact import CODE_ALIGNMENT, Artefact, Buffer
from burn.runtime.device import Device


@dataclass(frozen=True)
class Card:
    """A kind of card: "cuda" and an architecture such as "sm_90"."""

    kind: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.architecture}"

    @property
    def device(self) -> Device:
        """Any card of the kind."""
        return Device(self.kind)

    def check(self, program: Artefact) -> None:
        """Raises CompileError where kernels want more shared memory than there is."""
        most = architectures()[str(self)]
        problems = [
            Problem(f"{image.name} takes {image.shared} bytes of shared memory, and a block has {most} there")
            for image in program.images
            if image.shared > most
        ]
        if problems:
            raise CompileError(f"the program does not fit {self}", problems)


def names_device(target: str) -> bool:
    """Whether a target is a device beside a platform's CPU ("cuda:sm_90") rather than a platform."""
    return ":" in target


def find(name: str) -> Card:
    """The card of a name such as "cuda:sm_90". Raises CompileError."""
    known = architectures()
    if name not in known:
        raise CompileError("there is no such target", [Problem(f"'{name}' is no known card", hint=near(name, known))])
    kind, _, architecture = name.partition(":")
    return Card(kind, architecture)


@dataclass(frozen=True)
class Images:
    """The kernels of several versions of a program: `pieces` one after another are the bytes, `places` say where each
    version's lie. What is the same is there once."""

    pieces: Sequence[Buffer]
    places: Sequence[Sequence[int]]


def images(programs: Sequence[Artefact]) -> Images:
    pieces: list[Buffer] = []
    known: dict[bytes, int] = {}
    places: list[list[int]] = []
    at = 0
    for program in programs:
        places.append([])
        for image in program.images:
            size = memoryview(image.data).nbytes
            digest = hashlib.sha256(image.data).digest()
            if digest not in known:
                known[digest] = at
                padding = -size % CODE_ALIGNMENT
                pieces += [image.data, bytes(padding)]
                at += size + padding
            places[-1].append(known[digest])
    return Images(pieces, places)
