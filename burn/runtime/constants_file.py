"""A file of constants that a compilation writes as it makes them, so that they take no memory that the system cannot take back.

The file is in a folder of the cache and has no name. Constants are written with `add` and read through a map of the file. A page
is resident only while something reads it. `package.finish` writes the rest of a compiled program behind them and gives the file
its name in the cache. A file that never gets a name is gone when its last map is.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

ALIGNMENT = 64
"""Of constants: as `artefact.CONSTANT_ALIGNMENT`."""

START = 4096
"""Offset of the first constant, behind a page for the prefix of a compiled program."""

_numbers = count()
_FIRST = 16 << 20  # bytes of the file that are mapped at first; each further map has twice as many


class Stored(NamedTuple):
    """The position of a constant in a file of constants."""

    file: ConstantsFile
    offset: int
    bytes: int

    def release(self) -> None:
        """Releases the resident pages of the constant; the next access maps them again."""
        self.file.release(self.offset, self.bytes)


class ConstantsFile:
    """See the module. Several threads may add constants."""

    def __init__(self, folder: Path, most: int = 1 << 62) -> None:
        """most: bytes that the file may have. Raises OSError if the folder's file system has no files without a name, and on
        systems other than Linux."""
        if not hasattr(os, "O_TMPFILE"):
            raise OSError("this system has no files without a name")
        self._handle = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._close = weakref.finalize(self, os.close, self._handle)
        self._most = most
        self.path = folder / f".constants {next(_numbers)}"
        """An identity of the file in this process. There is no file of that name."""
        self.end = START
        """Offset behind the last constant."""
        self._maps: list[tuple[int, int, mmap.mmap]] = []  # offsets of the first byte and behind the last one
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes of the constants that were added, with the gaps between them."""
        return self.end - START

    def add(self, data: np.ndarray | memoryview) -> int:
        """Writes the bytes of a contiguous array or a flat memoryview; returns their offset. Raises OSError."""
        view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else data
        with self.adding(view.nbytes) as offset:
            self._write(offset, view)
        return offset

    @contextmanager
    def adding(self, size: int) -> Iterator[int]:
        """The offset of `size` bytes that the block writes by `write_part`. Raises OSError; then no byte was added."""
        with self._lock:
            offset = -(-self.end // ALIGNMENT) * ALIGNMENT
            self._reserve(offset, size)
            yield offset
            self.end = offset + size

    def write_part(self, offset: int, data: memoryview) -> None:
        """Writes a part of the bytes that a block of `adding` adds. Raises OSError."""
        self._write(offset, data)

    def view(self, offset: int, length: int) -> memoryview:
        """The bytes [offset, offset + length) of a constant, mapped."""
        for start, end, content in self._maps:
            if start <= offset and offset + length <= end:
                return memoryview(content)[offset - start : offset - start + length].toreadonly()
        raise ValueError(f"no constant has {length} bytes at offset {offset}")

    def release(self, offset: int, length: int) -> None:
        """Releases the resident pages of these bytes; the next access maps them again."""
        for start, end, content in self._maps:
            if start <= offset and offset + length <= end and length:
                first = (offset - start) // mmap.PAGESIZE * mmap.PAGESIZE
                content.madvise(mmap.MADV_DONTNEED, first, offset - start + length - first)
                return

    def write_around(self, pieces: list[tuple[int, bytes]], end: int) -> None:
        """Writes bytes at offsets that no constant has, and makes `end` the size of the file. Raises OSError."""
        for offset, data in pieces:
            self._write(offset, memoryview(data))
        os.ftruncate(self._handle, end)

    def give_name(self, path: Path) -> None:
        """Replaces the file at `path` by this one. Raises OSError."""
        temporary = path.parent / f".{path.name[:100]}.{os.urandom(8).hex()}.tmp"
        source = f"/proc/self/fd/{self._handle}"  # an absolute path; os.link follows links only if it gets a folder
        os.link(source, temporary, src_dir_fd=self._handle, follow_symlinks=True)
        try:
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise

    def close(self) -> None:
        """Closes the descriptor: constants can be read, but no longer added. Maps have descriptors of their own."""
        with self._lock:
            self._close()
            self._handle = -1

    def _reserve(self, offset: int, size: int) -> None:
        if offset + size > self._most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        if any(start <= offset and offset + size <= end for start, end, _ in self._maps):
            return
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        length = max(_FIRST << len(self._maps), -(-(offset + size - start) // mmap.PAGESIZE) * mmap.PAGESIZE)
        os.ftruncate(self._handle, start + length)  # bytes that are never written take no room on the disk
        content = mmap.mmap(self._handle, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=start)
        self._maps.append((start, start + length, content))

    def _write(self, offset: int, data: memoryview) -> None:
        written = 0
        while written < data.nbytes:
            written += os.pwrite(self._handle, data[written:], offset + written)
