"""Files as bytes in memory: opened without waiting for what is no file, mapped, and written whole or not at all."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from burn.errors import ModelError
from burn.variables import variable

_DESCRIPTORS = ("/proc/", "/dev/fd/")
_UNNOTED = getattr(os, "O_NOATIME", 0)  # Linux has it


def mapped(path: str | os.PathLike[str], unnoted: bool = False) -> mmap.mmap | bytes:
    """The bytes of a regular file, mapped and read on access; with BURN_COPY_FILES=1 in the environment, a copy. A mapped
    file that is truncated in use ends the process (SIGBUS). Raises OSError, and ModelError for other kinds of files: reading a
    pipe without a writer would never end. unnoted: see `opened`."""
    if are_copied():
        return copied(path, unnoted)
    handle, status = opened(path, unnoted)
    try:
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ) if status.st_size else b""
    finally:
        os.close(handle)


def are_copied() -> bool:
    """True if the environment requests copies of files instead of mappings."""
    return variable("BURN_COPY_FILES") not in (None, "0")


def content(path: str | os.PathLike[str], unnoted: bool = False) -> bytes:
    """All bytes of a small file. Raises as `mapped` does."""
    handle, _ = opened(path, unnoted)
    with os.fdopen(handle, "rb") as file:
        return file.read()


def copied(path: str | os.PathLike[str], unnoted: bool = False) -> mmap.mmap | bytes:
    """The same in memory of this process, which later writes to the file do not reach."""
    handle, status = opened(path, unnoted)
    with os.fdopen(handle, "rb") as file:
        if not status.st_size:
            return b""
        memory = mmap.mmap(-1, status.st_size)
        with memoryview(memory) as view:
            if file.readinto(view) != status.st_size:
                raise ModelError(f"cannot read {path}", ["it became shorter meanwhile"])
        return memory


def opened(path: str | os.PathLike[str], unnoted: bool = False) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, which the caller closes, and what the system says of it. Raises as `mapped` does.
    unnoted: reading leaves the file's time of access as it is, if the system can do so for this user's own file."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags | (_UNNOTED if unnoted else 0))
    except PermissionError:
        if not unnoted:
            raise
        handle = os.open(path, flags)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a file but a pipe or a device"
        raise ModelError(f"cannot read {path}", [f"it is {kind}"])
    return handle, status


@contextmanager
def whole(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends, or is removed if the block fails. durable: synchronises it to the disk
    first, so that a loss of power leaves the old file or the new one.

    It is written in the same folder under a random name. It gets the permissions of an existing file; a link is
    replaced, not followed. A device, a pipe, or a standard stream by its path (/dev/stdout) is written directly.
    Raises OSError, which names `path`."""
    import tempfile  # on demand, as shutil below: a process that only reads needs neither, nor the compressions they import

    if is_stream(path):
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            _pour(file, path)
        return
    try:
        _refuse_folder(path)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), _mode(path))  # mkstemp's files are private
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and (error.filename == temporary or _is_nameless(error)):
            error.filename, error.filename2 = str(path), None
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        _settle(path.parent)


def put(made: Path, path: Path) -> None:
    """Moves a finished file of the same file system to `path`, by the rules of `whole`. Raises OSError."""
    if is_stream(path):
        with made.open("rb") as file:
            _pour(file, path)
        made.unlink()
        return
    _refuse_folder(path)
    os.chmod(made, _mode(path))
    os.replace(made, path)
    _settle(path.parent)


def save_text(path: Path, text: str, durable: bool = True) -> None:
    """In UTF-8, whole or not at all; see `whole`."""
    with whole(path, durable) as file:
        file.write(text.encode())


def is_stream(path: Path) -> bool:
    """Bytes written there go somewhere else than to a file that could be replaced."""
    if _names_descriptor(path):
        return True
    with suppress(OSError, ValueError):
        mode = path.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def _names_descriptor(path: Path) -> bool:
    """/dev/stdout is a link to one of the process's descriptors, whatever that is."""
    if str(path).startswith(_DESCRIPTORS):
        return True
    with suppress(OSError, ValueError):
        return os.readlink(path).startswith(_DESCRIPTORS)
    return False


def _pour(file: BinaryIO, path: Path) -> None:
    import shutil

    truncate = os.O_TRUNC if _names_descriptor(path) else 0
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | truncate), "wb") as stream:
            shutil.copyfileobj(file, stream)
    except OSError as error:
        if _is_nameless(error):
            error.filename = str(path)
        raise


def _is_nameless(error: OSError) -> bool:
    """True for an error of a descriptor, such as that of a full disk. An error without a number (of a library, of a connection)
    has a text of its own, which a file's name would replace."""
    return error.filename is None and error.errno is not None


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those of a new one."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            return stat.S_IMODE(status.st_mode) & 0o777
    return _default_mode()


def _settle(folder: Path) -> None:
    """The new name on the disk, where the file system can do that: a checkpoint is not lost with the one that it replaces."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _default_mode() -> int:
    """A new file's mode under this process's umask. It reads /proc, because os.umask would change the mask for all threads."""
    with suppress(OSError, ValueError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return 0o666 & ~int(line.split()[1], 8)
    return 0o644
