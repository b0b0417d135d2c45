"""The C runtime as objects to link with: compiled once for a compiler and a platform, and kept in the cache on disk.

The sources are burn's own runtime (burn/runtime/native) without the code loader, and the folder native/ here, which implements
the interface. Programs without GPU code leave out the GPU files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from burn.runtime.cache import Cache, make_private
from burn.toolchain import Toolchain

OWN = Path(__file__).parent / "native"
SHARED = Path(__file__).parents[1] / "runtime" / "native"
COMMAND = ("main.c", "command.c", "crc32.c", "files.c", "npz.c", "inflate.c")
"""The additional sources of commands."""

_OMITTED = ("elf", "symbols", "communicator", "run_collective")
_GPU = ("run_device", "run_recorded", "run_traced", "device", "driver", "gpu")
"""Sources of programs with GPU code; others use `_NO_GPU` instead."""
_NO_GPU = ("no_gpu",)
_NOT_IN_PAGES = (
    *_NO_GPU,
    "gpu",
    "run_traced",
    "device_list",
    "driver",
    "driver_cuda",
    "driver_hip",
    "driver_wgpu",
    "driver_wgpu_half",
    "driver_wgpu_options",
    "driver_wgpu_queries",
)
"""Of programs for a page's WebGPU: native/webgpu has their driver, with the memory and commands of `driver_wgpu_*.c`."""
_COLD = (
    "command",
    "cpu",
    "files",
    "heap",
    "lib_list",
    "main",
    "model",
    "npz",
    "run_profile",
    "sizes",
    "system",
    "weights",
)
"""Sources that run once, or once per call, and not for each element: compiled for size."""

_HALF_CONVERSIONS = ("truncdfhf2", "truncsfhf2", "truncdfbf2", "truncsfbf2", "extendhfsf2")


def flags() -> list[str]:
    """Flags for files that include the runtime's headers. LLVM has its own names for conversions of fp16 and bf16."""
    return [f"-I{OWN}", f"-I{SHARED}", *(f"-Dburn_{name}=__{name}" for name in _HALF_CONVERSIONS)]


def sources(command: bool, gpus: bool = False, page: bool = False) -> list[Path]:
    """The C files of a library, or of a command. gpus: with GPU code. page: of a module for a page with WebGPU."""
    omitted = (*_OMITTED, *(() if page else _NO_GPU if gpus else _GPU))
    files = [*sorted(SHARED.glob("*.c")), *sorted(OWN.glob("*.c"))]
    return [
        path
        for path in files
        if not any(path.stem == name or path.stem.startswith(f"{name}_") for name in omitted)
        and (command or path.name not in COMMAND)
        and not (page and path.stem in _NOT_IN_PAGES)
    ]


@contextmanager
def objects(
    chain: Toolchain,
    command: bool = False,
    gpus: bool = False,
    told: Sequence[str] = (),
    more: Sequence[Path] = (),
    page: bool = False,
) -> Iterator[list[Path]]:
    """The runtime's objects, valid inside the block. told: further compiler flags. more: C files beside the runtime's that no
    model changes. page: see `sources`. Raises CompileError."""
    with compiled(chain, [*sources(command, gpus, page), *more], told) as made:
        yield made


@contextmanager
def compiled(chain: Toolchain, files: Sequence[Path], told: Sequence[str] = ()) -> Iterator[list[Path]]:
    """The objects of C files that no model changes, valid inside the block; from the cache if they are there. Raises
    CompileError."""
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
    """The folder of cached objects; None without a cache, or if another user could have written to it."""
    cache = Cache.from_environment()
    if cache.size == 0:
        return None
    digest = hashlib.sha256("\n".join([chain.identity, *without_paths(flags()), *_COLD, *without_paths(told)]).encode())
    folders = dict.fromkeys([OWN, SHARED, *(path.parent for path in files)])
    for path in (*files, *(header for folder in folders for header in sorted(folder.glob("*.h")))):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    folder = cache.directory / "native" / digest.hexdigest()
    untrusted = [path for path in (folder, *_files(folder)) if cache.distrusted(path) is not None]
    return None if untrusted else folder


def without_paths(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if not flag.startswith("-I")]


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _keep(made: Sequence[Path], folder: Path) -> None:
    """A folder of objects appears whole, or is another process's of the same name. A full disk is no error."""
    with suppress(OSError):
        for parent in (folder.parent.parent, folder.parent):
            make_private(parent)
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new."))
        try:
            for path in made:
                shutil.copyfile(path, aside / path.name)
                (aside / path.name).chmod(0o600)
            os.rename(aside, folder)
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
