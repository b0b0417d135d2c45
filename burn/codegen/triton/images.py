"""Machine code of printed kernels: `compile_all`, from the cache on disk or by Triton in processes of its own.

A kernel is compiled once for each specialisation of its sizes: 1, or a multiple of 4, 8 or 16. Indices have 32 bits if all
sizes are known to fit. The cache keeps each kernel, so that the same kernel of another program is compiled once, and a program
whose kernels are all there needs no Triton.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from burn.codegen.triton import workers
from burn.codegen.triton.program import with_library
from burn.codegen.triton.sources import Machine, Source
from burn.errors import CompileError, Problem
from burn.runtime import versions
from burn.runtime.artefact import KernelImage
from burn.runtime.cache import Cache
from burn.runtime.kernel_file import CompiledKernel

__all__ = ["Machine", "Source", "compile_all", "compile_each", "module"]


def compile_all(
    sources: Iterable[Source], machine: Machine, known: Mapping[Source, KernelImage] | None = None
) -> list[KernelImage]:
    """Compiles kernels as they are printed, except those in `known`. Raises CompileError, which names each kernel that cannot be
    compiled, its nodes, and the file that has its text."""
    have = known or {}
    given: list[Source] = []

    def missing() -> Iterator[Source]:
        for source in sources:
            given.append(source)
            if source not in have:
                yield source

    images = compile_each(missing(), machine)
    made = dict(zip([source for source in given if source not in have], images, strict=True))
    problems = [
        Problem(f"{source.name}: {result}; its text is in {_kept(source)}", node=", ".join(source.nodes))
        for source, result in made.items()
        if isinstance(result, str)
    ]
    if problems:
        raise CompileError("Triton cannot compile this program's kernels", problems)
    every = (have.get(source) or made[source] for source in given)
    return [image for image in every if isinstance(image, KernelImage)]


def compile_each(sources: Iterable[Source], machine: Machine) -> list[KernelImage | str]:
    """The images, or for each kernel that fails the reason. Raises CompileError if Triton is needed and cannot be run."""
    cache, compiler = Cache.from_environment(), f"triton {versions.installed('triton')}"
    keys: list[bytes] = []
    found: dict[bytes, KernelImage | str | None] = {}  # None: is compiled
    early: dict[bytes, bool] = {}

    def missing() -> Iterator[Source]:
        """The sources without an image. Equal ones are compiled once."""
        for source in sources:
            keys.append(key := _key(source, machine, compiler))
            if key in found:
                continue
            kept, early[key] = cache.get_kernel(key), source.early
            found[key] = None if kept is None else kept.image
            if kept is None:
                _check_installed()
                yield source

    images = workers.compiled(missing(), machine)
    for key, made in zip([key for key, image in found.items() if image is None], images, strict=True):
        found[key] = made if isinstance(made, str) else KernelImage(*made, early=early[key])
        if isinstance(image := found[key], KernelImage):
            cache.put_kernel(key, CompiledKernel(image, machine.kind, machine.name, compiler))
    return [image for key in keys if (image := found[key]) is not None]


def _check_installed() -> None:
    """Raises CompileError."""
    if importlib.util.find_spec("triton") is None:
        hint = "pip install 'burn-mlir[gpu]'"
        raise CompileError("GPU kernels need Triton", [Problem("it is not installed here", hint=hint)])


def _key(source: Source, machine: Machine, compiler: str) -> bytes:
    """All that the machine code depends on. Nodes are for error messages."""
    return repr(("kernel", compiler, workers.variables(), machine, replace(source, nodes=()))).encode()


def _kept(source: Source) -> Path:
    path = Cache.from_environment().folder("failed") / f"{source.name}-{source.digest}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source.text)
    return path


@functools.lru_cache(maxsize=1024)
def module(name: str, text: str) -> str:
    """A kernel's text as a module."""
    return with_library([text], f"{name}, and what it calls.")
