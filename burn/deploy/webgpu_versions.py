"""The two versions of a program in a package for WebGPU: for GPUs, and for adapters that run on the CPU. A page reads one.

The passes of both make mostly the same constants. Those that only the second version has are in a file of their own, which it
reads beside the other one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from burn.deploy import weights as stored
from burn.runtime.artefact import Artefact, Constant


@dataclass(frozen=True)
class Version:
    """name: in index.js. suffix: of its files' names. weights: the files that it reads. constants: for each constant, the
    number of a file and the position there."""

    name: str
    suffix: str
    artefact: Artefact
    weights: Sequence[tuple[str, stored.Weights]]
    constants: Sequence[tuple[int, stored.Stored]]

    @property
    def module_file(self) -> str:
        return f"model{self.suffix}.wasm"

    @property
    def texts_file(self) -> str:
        return f"kernels{self.suffix}.wgsl"

    @property
    def texts(self) -> bytes:
        """The texts of its kernels, one after another."""
        return b"".join(bytes(image.data) for image in self.artefact.images)


def versions_of(gpu: Artefact, software: Artefact) -> tuple[Version, Version]:
    known = [_identity(constant) for constant in gpu.constants]
    own = {key: c for c in software.constants if (key := _identity(c)) not in known}
    files = [
        ("weights.safetensors", stored.layout(gpu.constants, as_file=True)),
        ("weights-software.safetensors", stored.layout(list(own.values()), as_file=True)),
    ]
    files = [(file, weights) for file, weights in files if weights.bytes]
    entries = [(number, entry) for number, (_, weights) in enumerate(files) for entry in weights.entries]
    found = dict(zip([*known, *own], entries, strict=True))
    return (
        Version("gpu", "", gpu, files[: bool(known)], [found[key] for key in known]),
        Version("software", "-software", software, files, [found[_identity(c)] for c in software.constants]),
    )


def _identity(constant: Constant) -> tuple[str, tuple[int, ...], bytes]:
    return constant.dtype, tuple(constant.shape), hashlib.sha256(constant.data).digest()
