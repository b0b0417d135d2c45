"""Custom ops (`burn.custom_op`) in binaries: their functions in C are compiled for the binary's platform, and linked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from burn.dialect.custom import version
from burn.errors import CompileError, Problem
from burn.runtime.artefact import PYTHON, Artefact, Library
from burn.toolchain import Toolchain
from burn.toolchain.platforms import Platform


def refuse_python(artefact: Artefact) -> None:
    """Raises CompileError that names every custom op that is a Python function."""
    problems = [
        Problem(
            "its body is a Python function",
            op=kernel.name.removeprefix(PYTHON),
            node=", ".join(kernel.sources),
            hint="give it one in C or of burn functions; burn.load runs it as it is",
        )
        for kernel in artefact.kernels
        if kernel.name.startswith(PYTHON)
    ]
    if problems:
        raise CompileError("this model needs Python while it runs", problems)


def refuse_all(artefact: Artefact, kind: str) -> None:
    """Raises CompileError that names every custom op in C, for outputs that link nothing."""
    problems = [
        Problem(f"{kind} does not hold its function", op=library.op, hint="--emit shared, static or exe links it")
        for library in artefact.libraries
    ]
    if problems:
        raise CompileError("custom ops cannot be compiled so", problems)


def refuse_systems(artefact: Artefact) -> None:
    """Raises CompileError that names every custom op whose body needs an operating system, and those that are objects: memory is
    planned from a run on this machine."""
    needs = {library.op: need for library in artefact.libraries if (need := _need(_body(library)))}
    hint = "give it in C, as source"
    problems = [Problem(f"its body {need}", op=op, hint=hint) for op, need in needs.items()]
    if problems:
        raise CompileError("a custom op does not run without an operating system", problems)


def _need(body: Any) -> str:
    if body.language == "object":
        return "is an object file"
    if body.language == "c++":
        return "needs the C++ library"
    return f"needs the libraries {', '.join(body.libraries)}" if body.libraries else ""


def objects(artefacts: Iterable[Artefact], chain: Toolchain, folder: Path) -> tuple[list[Path], list[str]]:
    """Objects with the functions of custom ops, each once, in a folder, and the linker's flags that they need."""
    made: dict[Path, None] = {}
    flags: dict[str, None] = {}
    for library in _distinct(artefacts):
        body = _body(library)
        made.update(dict.fromkeys(body.objects(library.symbol, chain, folder)))
        flags.update(dict.fromkeys(body.linking(chain)))
    return list(made), list(flags)


def for_platform(artefact: Artefact, platform: Platform) -> Artefact:
    """An artefact whose custom ops are shared libraries of a platform."""
    found = tuple(
        replace(library, data=_body(library).library(library.symbol, platform)) for library in artefact.libraries
    )
    return replace(artefact, libraries=found)


def _distinct(artefacts: Iterable[Artefact]) -> list[Library]:
    return list({library.symbol: library for artefact in artefacts for library in artefact.libraries}.values())


def _body(library: Library) -> Any:
    definition: Any = version(library.op, library.symbol.removeprefix("burn_custom_"))
    return definition.c
