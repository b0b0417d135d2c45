"""Large entries of the cache whose checksums are verified: once for each file since the machine started.

An entry is written whole or not at all, so that its bytes are damaged only by a machine that fails while it writes them, or by a
disk. Reading every byte of a model's weights takes longer than all the rest of loading it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from burn.runtime import notes
from burn.runtime.artefact import Artefact

if TYPE_CHECKING:
    from burn.runtime.cache import Cache

LARGE = 16 << 20
"""Bytes of a file from which its verification is noted."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def load(store: Cache, path: Path) -> Artefact:
    """The program of an entry; its constants are verified unless they were. Raises ModelError."""
    before = _stamp(path)
    name = f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.verified"
    is_known = before is not None and notes.read(store, name) == before
    artefact = Artefact.load(path, check=not is_known)
    if before is None:
        return artefact
    if _stamp(path) != before:  # another process has replaced it meanwhile
        return Artefact.load(path) if is_known else artefact
    if not is_known:
        with suppress(OSError):
            notes.save(store, name, before)
    return artefact


def _stamp(path: Path) -> str | None:
    """A text that changes with the file's bytes and with each start of the machine; None for a small file, and if the system does
    not say when it started."""
    with suppress(OSError):
        status = path.stat()
        if status.st_size >= LARGE and (boot := _boot()):
            return f"{boot} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return None


@cache
def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""
