"""The versions of everything that compiled code depends on, for the keys of caches.

Nothing is imported to find them: `importlib.metadata` alone takes longer than loading a cached program.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Collection
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

from burn.runtime import _native

INFO = (".dist-info", ".egg-info")

_DIGITS = 32
"""Of a digest."""

SOURCES = (".py", ".wgsl")
"""Endings of the files that compiled programs depend on. The C runtime has a digest of its own."""

_UNRELATED = frozenset(("bench", "cli", "exporters"))
"""Folders of burn that no compiled program depends on."""


@functools.cache
def installed(distribution: str) -> str:
    """The version of an installed distribution whose package has the same name, "absent" if there is none. Without metadata
    beside the package (a development install) its folder's time of change stands for the version."""
    package = distribution.replace("-", "_")
    found = PathFinder.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return "absent"
    folder = Path(next(iter(found.submodule_search_locations)))
    for name in sorted(os.listdir(folder.parent)):
        if name.startswith(f"{package}-") and name.endswith(INFO):
            return name[len(package) + 1 :].removesuffix(INFO[0]).removesuffix(INFO[1])
    return f"of {folder.stat().st_mtime_ns}"


@functools.cache
def native_runtime() -> str:
    """The C runtime: burn's version, and a digest of its file, which a checkout builds anew under one version."""
    path = _native.__file__
    stat = os.stat(path)
    return f"{_native.__version__} {_digest([path], f'{path} {stat.st_size} {stat.st_mtime_ns}')}"


def compilers(packages: Collection[str]) -> tuple[str, ...]:
    """The versions that generated code depends on: of these distributions, of the C runtime and of burn's sources. They are the
    same on every machine with the same installation."""
    return (
        *(f"{name} {installed(name)}" for name in packages),
        f"runtime {native_runtime()}",
        f"burn {sources(_UNRELATED)}",
    )


@functools.cache
def sources(unrelated: Collection[str] = frozenset()) -> str:
    """A digest of burn's source files, which change in a checkout under one version: Python, and WGSL for the texts of kernels.
    unrelated: folders that do not count."""
    latest = size = 0
    root = str(Path(__file__).parent.parent)
    found, folders, skipped = [], [root], ("__pycache__", *unrelated)
    while folders:
        with os.scandir(
            folders.pop()
        ) as entries:  # pathlib takes four times as long, in each process that loads a program
            for entry in entries:
                if entry.name.endswith(SOURCES):
                    stat = entry.stat()
                    found.append(entry.path)
                    latest, size = max(latest, stat.st_mtime_ns), size + stat.st_size
                elif entry.name not in skipped and entry.is_dir():
                    folders.append(entry.path)
        skipped = ("__pycache__",)
    return _digest(found, f"{root} {sorted(unrelated)} {len(found)} {latest} {size}", root)


def _digest(paths: list[str], stamp: str, root: str = "") -> str:
    """A digest of files' contents, and of their names under `root`. The cache folder keeps it by `stamp`, which changes with the
    files, because reading a thousand files takes longer than loading a program."""
    from burn.runtime import notes
    from burn.runtime.cache import Cache

    cache, name = Cache.from_environment(), hashlib.sha256(stamp.encode()).hexdigest()[:32]
    if (known := notes.read(cache, name)) is not None:
        with suppress(ValueError):
            return _whole(known)
    made = hashlib.sha256()
    for path in sorted(paths):
        with open(path, "rb") as file:
            content = file.read()
        made.update(f"{path.removeprefix(root) if root else ''} {len(content)} ".encode())
        made.update(content)
    digest = made.hexdigest()[:_DIGITS]
    with suppress(OSError):
        notes.save(cache, name, digest)
    return digest


def _whole(digest: str) -> str:
    """Raises ValueError for a text that is no digest."""
    if len(digest) != _DIGITS or not digest.isalnum():
        raise ValueError(digest)
    return digest
