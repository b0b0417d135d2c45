"""The C runtime as objects to link with: compiled once for a compiler and a platform, and kept in the cache on disk.

The sources are those that burn itself runs with (burn/runtime/native), without what loads code into a process and, where a
program runs on none, what cards need, and the folder native/ here, which gives a program its interface.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from burn.deploy.toolchain import Toolchain
from burn.runtime.cache import Cache, make_private

OWN = Path(__file__).parent / "native"
SHARED = Path(__file__).parents[1] / "runtime" / "native"
COMMAND = ("main.c", "files.c", "npz.c", "inflate.c")
"""What makes a command of a model."""

_OMITTED = ("elf", "symbols")
_CARDS = ("run_device", "run_recorded", "device", "driver", "card")
"""What programs for cards are linked with; what other programs are linked with instead is `_NO_CARDS`."""
_NO_CARDS = ("no_card",)
_COLD = ("cpu", "files", "heap", "lib_list", "main", "model", "npz", "run_profile", "sizes", "system", "weights")
"""What is done once, or once for a call, and not for each element: compiled to be short."""

_HALVES = ("truncdfhf2", "truncsfhf2", "truncdfbf2", "truncsfbf2", "extendhfsf2")


def flags() -> list[str]:
    """For files that include the runtime's headers. LLVM calls the conversions of halves by names of its own."""
    return [f"-I{OWN}", f"-I{SHARED}", *(f"-Dburn_{name}=__{name}" for name in _HALVES)]


def sources(command: bool, cards: bool = False) -> list[Path]:
    """The C files of a library, or with what makes a command of it. cards: of a program that runs on one."""
    omitted = (*_OMITTED, *(_NO_CARDS if cards else _CARDS))
    files = [*sorted(SHARED.glob("*.c")), *sorted(OWN.glob("*.c"))]
    return [
        path
        for path in files
        if not any(path.stem == name or path.stem.startswith(f"{name}_") for name in omitted)
        and (command or path.name not in COMMAND)
    ]


@contextmanager
def objects(
    chain: Toolchain, command: bool = False, cards: bool = False, told: Sequence[str] = ()
) -> Iterator[list[Path]]:
    """The runtime's objects, as long as the block lasts. told: what else the compiler is told. Raises CompileError."""
    files = sources(command, cards)
    names = [f"{path.stem}.o" for path in files]
    with tempfile.TemporaryDirectory() as scratch:
        kept = _kept(chain, files, told)
        if kept is not None and all((kept / name).is_file() for name in names):
            yield [kept / name for name in names]
            return
        for is_cold in (False, True):
            some = [path for path in files if (path.stem in _COLD) == is_cold]
            chain.compile(some, Path(scratch), [*flags(), *["-Os"] * is_cold, *told])
        made = [Path(scratch) / name for name in names]
        if kept is not None:
            _keep(made, kept)
        yield made


def _kept(chain: Toolchain, files: Sequence[Path], told: Sequence[str]) -> Path | None:
    """Where they are kept; None where nothing is, or where somebody else could have written to them."""
    cache = Cache.from_environment()
    if cache.size == 0:
        return None
    digest = hashlib.sha256("\n".join([chain.identity, *flags_without_paths(), *_COLD, *told]).encode())
    for path in (*files, *sorted(OWN.glob("*.h")), *sorted(SHARED.glob("*.h"))):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    folder = cache.directory / "native" / digest.hexdigest()
    untrusted = [path for path in (folder, *_files(folder)) if cache.distrusted(path) is not None]
    return None if untrusted else folder


def flags_without_paths() -> list[str]:
    return [flag for flag in flags() if not flag.startswith("-I")]


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _keep(made: Sequence[Path], folder: Path) -> None:
    """A folder of objects appears whole, or is another process's of the same name. A full disk is no error."""
    with suppress(OSError):
        for place in (folder.parent.parent, folder.parent):
            make_private(place)
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new."))
        try:
            for path in made:
                shutil.copyfile(path, aside / path.name)
                (aside / path.name).chmod(0o600)
            os.rename(aside, folder)
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
