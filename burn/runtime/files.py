"""Files as bytes in memory: opened without waiting for what is no file, mapped, and written whole or not at all."""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from burn.errors import ModelError


def mapped(path: str | os.PathLike[str]) -> mmap.mmap | bytes:
    """The bytes of a regular file, read when they are looked at. Raises OSError, and ModelError for what is no file: a pipe
    that nobody writes to would never end."""
    handle, status = opened(path)
    try:
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ) if status.st_size else b""
    finally:
        os.close(handle)


def copied(path: str | os.PathLike[str]) -> mmap.mmap | bytes:
    """The same in memory of this process, which later writes to the file do not reach."""
    handle, status = opened(path)
    with os.fdopen(handle, "rb") as file:
        if not status.st_size:
            return b""
        memory = mmap.mmap(-1, status.st_size)
        with memoryview(memory) as view:
            if file.readinto(view) != status.st_size:
                raise ModelError(f"cannot read {path}", ["it became shorter meanwhile"])
        return memory


def opened(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, which the caller closes, and what the system says of it. Raises as `mapped` does."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a file but a pipe or a device"
        raise ModelError(f"cannot read {path}", [f"it is {kind}"])
    return handle, status


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes `path`'s place when the block ends, on the disk by then; nothing is left where it fails.
    Raises OSError, which names `path`."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _default_mode())  # mkstemp's files are private
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename, error.filename2 = str(path), None
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def save_text(path: Path, text: str) -> None:
    """In UTF-8, whole or not at all."""
    with whole(path) as file:
        file.write(text.encode())


def _default_mode() -> int:
    """What a new file's mode is under this process's mask, which cannot be asked for without setting it for all threads."""
    with suppress(OSError, ValueError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return 0o666 & ~int(line.split()[1], 8)
    return 0o644
