"""Entries of a cache whose headers hold every field that an artefact has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from burn.runtime import cache_file, host
from burn.runtime.artefact import (
    Artefact,
    Constant,
    KernelImage,
    KernelInfo,
    Library,
    Signature,
    Target,
    ValueSpec,
)
from burn.runtime.cache import Cache
from burn.runtime.kernel_file import CompiledKernel

TRIPLE = f"{host.architecture()}-unknown-linux-gnu"


def entries() -> dict[str, bytes]:
    """Programs for the CPU and for a GPU, and a kernel, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        cache.put(b"full", full())
        cache.put(b"gpu", gpu())
        cache.put(b"plain", Artefact(Signature((), ()), Target(TRIPLE), b"code", made_by=versions()))
        cache.put_kernel(b"kernel", CompiledKernel(KernelImage("k", b"code", 128, 64), "cuda", "sm_90", triton()))
        return {path.parent.name + path.name: path.read_bytes() for path in sorted(cache.entries())}


def versions() -> tuple[str, ...]:
    return cache_file._versions_here()


def triton() -> str:
    return next((version for version in versions() if version.startswith("triton ")), "triton")


def full() -> Artefact:
    """A program with a value of each kind, constants, kernels and a custom op's library."""
    inputs = (
        ValueSpec("x", "float32", ("n", 3), donated_to=0),
        ValueSpec("many", "int64", ("m",), containers=("sequence", "optional")),
        ValueSpec("any", "float16", (), containers=("sequence",), any_rank=True),
    )
    outputs = (
        ValueSpec("y", "float32", ("2*n + 1", 3)),
        ValueSpec("map", "float32", ("n", 2), keys=(7, 9)),
        ValueSpec("words", "float32", ("n", 2), keys=("a", "b")),
    )
    return Artefact(
        Signature(inputs, outputs, random_state=True),
        Target(TRIPLE),
        b"code",
        (Constant.of(np.arange(6.0).reshape(2, 3)), Constant.of(np.array(["a", "bc"], object))),
        live_ranges=((0, 1), (1, 2)),
        buffers=("4*n", "64"),
        kernels=(KernelInfo("gemm", "gemm", ("node",), "2*n", "n", (), 0), KernelInfo("add", reads=(0,), step=1)),
        sites=("node", "another"),
        libraries=(Library("my_op", "my::op", b"library"),),
        made_by=versions(),
    )


def gpu() -> Artefact:
    image = KernelImage("add", b"machine code", 0, 128)
    value = ValueSpec("x", "float32", ("n",))
    target = Target(TRIPLE, (), "cuda", "sm_90")
    return Artefact(Signature((value,), (value,)), target, b"code", images=(image,), made_by=versions())
