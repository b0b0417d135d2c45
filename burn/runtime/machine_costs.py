"""The file of the costs that were measured on this machine, in the cache's folder.

There is one file for a CPU model, its features and a version of burn. `burn tune-machine` writes it, and compilations for this
machine read it (burn/codegen/cpu/measured.py). A process reads it once, so that the key of a compiled program and its code
depend on the same costs.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from burn.runtime import _native, files, host
from burn.runtime.cache import Cache, CacheWarning, make_private

FOLDER = "machine"
LARGEST = 64 << 10
"""Bytes of a file; larger ones are not read."""

_DIGITS = 32

_read: dict[Path, bytes | None] = {}
"""The contents of files that this process has read; None for one that is absent or not trusted."""


def path(cache: Cache) -> Path:
    """The file of this machine."""
    facts = "\n".join([host.processor(), *sorted(host.features()), _native.__version__])
    return cache.directory / FOLDER / f"{hashlib.sha256(facts.encode()).hexdigest()[:_DIGITS]}.json"


def content() -> bytes | None:
    """The bytes of the file as this process first read them. None if there is none, if the cache is off, or if another user may
    have written it, which a CacheWarning states."""
    cache = Cache.from_environment()
    folder = cache.directory / FOLDER
    if not cache.size or not folder.exists():  # the name of the CPU takes milliseconds on machines with many
        return None
    file = path(cache)
    if file not in _read:
        _read[file] = _content(cache, file)
    return _read[file]


def _content(cache: Cache, file: Path) -> bytes | None:
    if not file.exists():
        return None
    if (why := cache.distrusted(file)) is not None:
        warnings.warn(f"the measured costs of this machine are not used: {why}", CacheWarning, stacklevel=4)
        return None
    with suppress(OSError):
        if file.stat().st_size <= LARGEST:
            return files.content(file)
    warnings.warn(f"the measured costs of this machine are not used: {file} cannot be read", CacheWarning, stacklevel=4)
    return None


def identity() -> str:
    """The part of a compiled program's key: a digest of the file, "" without one."""
    found = content()
    return "" if found is None else f"costs {hashlib.sha256(found).hexdigest()[:_DIGITS]}"


def save(record: Mapping[str, object]) -> Path:
    """Writes the file whole or not at all; this process uses it from now on. Raises OSError, and PermissionError if another
    user can write to the folder."""
    cache = Cache.from_environment()
    file = path(cache)
    for folder in (cache.directory, file.parent):
        make_private(folder)
    if (why := cache.distrusted(file)) is not None:
        raise PermissionError(why)
    files.save_text(file, json.dumps(record, indent=2) + "\n")
    file.chmod(0o600)
    _read.pop(file, None)
    return file


def remove() -> bool:
    """Removes the file; this process uses defaults from now on. False if there was none. Raises OSError."""
    file = path(Cache.from_environment())
    existed = file.exists()
    file.unlink(missing_ok=True)
    _read.pop(file, None)
    return existed
