"""Commands and libraries, of models and of trainings: `command`, `shared` and `static` link parts with their runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from burn.deploy import weights as stored
from burn.deploy.embedded import embedded
from burn.deploy.linking import MOST_EMBEDDED, placed, written
from burn.deploy.options import Options
from burn.deploy.weights import Weights
from burn.errors import CompileError, Problem
from burn.runtime import files
from burn.toolchain import Toolchain
from burn.toolchain.platforms import Platform


@dataclass(frozen=True)
class Parts:
    """The parts of a binary.

    verbs: the functions that a library shows, without the name in front. file: the file of weights beside it, or "". linking: the
    linker's flags. runtime: gives the objects of the runtime while it is entered. texts: the headers, and files that go with a
    library of this file name."""

    name: str
    verbs: Sequence[str]
    weights: Weights
    file: str
    objects: Sequence[Path]
    chain: Toolchain
    linking: Sequence[str]
    runtime: Callable[[], AbstractContextManager[Sequence[Path]]]
    texts: Callable[[str], list[tuple[str, str]]]


Make = Callable[[Path], Parts]
"""Parts, in a folder that is deleted afterwards."""


def command(make: Make, output: Path, options: Options) -> list[Path]:
    """A program. Raises CompileError where there are none."""
    if options.platform.program is None:
        hint = "--emit static" if options.platform.is_bare else "--emit wasm"
        raise CompileError(f"there are no executables on {options.platform.name}", [hint])
    with tempfile.TemporaryDirectory() as folder:
        parts, made = make(Path(folder)), Path(folder) / "program"
        with parts.runtime() as runtime:
            parts.chain.program([*parts.objects, *runtime], made, parts.linking)
        return [placed(made, output), *_weights(parts, output.parent)]


def shared(make: Make, output: Path, options: Options) -> list[Path]:
    """A folder with a shared library. Raises CompileError where there are none."""

    def link(parts: Parts, objects: Sequence[Path], made: Path) -> None:
        parts.chain.shared(objects, made, [f"{parts.name}_{verb}" for verb in parts.verbs], parts.linking)

    return _library(make, output, options, options.platform.shared, link)


def static(make: Make, output: Path, options: Options) -> list[Path]:
    """A folder with a static library. Raises CompileError where there are none."""

    def link(parts: Parts, objects: Sequence[Path], made: Path) -> None:
        parts.chain.archive(objects, made)

    return _library(make, output, options, options.platform.static, link)


def _library(
    make: Make,
    output: Path,
    options: Options,
    pattern: str | None,
    link: Callable[[Parts, Sequence[Path], Path], None],
) -> list[Path]:
    if pattern is None:
        raise CompileError(f"there are no such libraries on {options.platform.name}")
    with tempfile.TemporaryDirectory() as folder:
        parts = make(Path(folder))
        library = pattern.format(parts.name)
        made = Path(folder) / library
        with parts.runtime() as runtime:
            link(parts, [*parts.objects, *runtime], made)
        output.mkdir(parents=True, exist_ok=True)
        placed_ = [placed(made, output / library), *_weights(parts, output)]
        return [
            *placed_,
            *(path for file, text in parts.texts(library) for path in written(output / file, text.encode())),
        ]


def weights_source(name: str, weights: Weights, file: str, platform: Platform, scratch: Path) -> list[Path]:
    """The C file with the weights of a binary; none if they are in a file beside it. Raises CompileError for too many."""
    if not weights.bytes or file:
        return []
    if weights.bytes > MOST_EMBEDDED:
        problem = Problem(
            f"weights of {weights.bytes} bytes do not fit into a binary", hint="--weights file leaves them beside it"
        )
        raise CompileError(f"{name} cannot be linked", [problem])
    return [embedded(f"{name}_weights", stored.chunks(weights), platform, scratch)]


def _weights(parts: Parts, folder: Path) -> list[Path]:
    if not parts.file:
        return []
    with files.whole(folder / parts.file) as file:
        for chunk in stored.chunks(parts.weights):
            file.write(chunk)
    return [folder / parts.file]
