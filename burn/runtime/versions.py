"""The versions of everything that compiled code depends on, for the keys of caches.

Nothing is imported to find them: `importlib.metadata` alone takes longer than loading a cached program.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from importlib.machinery import PathFinder
from pathlib import Path

from burn.runtime import _native

INFO = (".dist-info", ".egg-info")

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
    """The C runtime: burn's version, and size and time of its file, which a checkout builds anew under one version."""
    stat = os.stat(_native.__file__)
    return f"{_native.__version__} {stat.st_size} {stat.st_mtime_ns}"


def compilers(packages: Collection[str]) -> tuple[str, ...]:
    """The versions that generated code depends on: of these distributions, of the C runtime and of burn's sources."""
    return (
        *(f"{name} {installed(name)}" for name in packages),
        f"runtime {native_runtime()}",
        f"burn {sources(_UNRELATED)}",
    )


@functools.cache
def sources(unrelated: Collection[str] = frozenset()) -> str:
    """burn's Python files, which change in a checkout under one version. unrelated: folders that do not count."""
    count = latest = size = 0
    folders, skipped = [str(Path(__file__).parent.parent)], ("__pycache__", *unrelated)
    while folders:
        with os.scandir(
            folders.pop()
        ) as entries:  # pathlib takes four times as long, in each process that loads a program
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    count, latest, size = count + 1, max(latest, stat.st_mtime_ns), size + stat.st_size
                elif entry.name not in skipped and entry.is_dir():
                    folders.append(entry.path)
        skipped = ("__pycache__",)
    return f"{count} {latest} {size}"
