"""Notes in the cache's folder: short texts that spare reading many bytes again, such as the digest of a large file.

`read` and `save` are for a note of a name. All notes together have a limit, because a model that is deleted leaves its note: the
ones used least recently are dropped.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from burn.runtime.cache import NOTES, Cache
from burn.runtime.files import save_text

LIMIT = 4 << 20
"""Bytes on disk of all notes: about a thousand."""
_BLOCK = 4096  # a file of one byte takes this many


def read(cache: Cache, name: str) -> str | None:
    """The text of a note. None if there is none, if another user may have written it, or if the cache is off."""
    if not cache.size:
        return None
    path = cache.folder(NOTES) / name
    if cache.distrusted(path) is not None:
        return None
    try:
        text = path.read_text()
    except (OSError, ValueError):
        return None
    with suppress(OSError):
        used(path)
    return text


def save(cache: Cache, name: str, text: str) -> None:
    """Writes a note whole or not at all, and drops others if all have more than LIMIT bytes. Raises OSError."""
    if not cache.size:
        return
    folder = cache.folder(NOTES)
    path = folder / name
    save_text(path, text, durable=False)
    with suppress(FileNotFoundError):  # dropped by another process just now
        path.chmod(0o600)
        used(path)
    make_room(path, min(LIMIT, cache.size))


def used(path: Path) -> None:
    """Sets the time of use, by which notes are dropped. A file system's own clock is coarse: notes of one tick have no order."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))


def make_room(added: Path, limit: int) -> None:
    """Drops those files of a folder that were used least recently, see `used`, if all take more than `limit` bytes on disk.
    Temporary files of processes that died are among them. The file that was added stays."""
    found = []
    with os.scandir(added.parent) as files:
        for file in files:
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    room = -(-status.st_size // _BLOCK) * _BLOCK
                    found.append((file.name == added.name, status.st_mtime_ns, room, file.path))
    total = sum(size for _, _, size, _ in found)
    for is_added, _, size, path in sorted(found):
        if total <= limit or is_added:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size
