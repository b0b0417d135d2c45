"""Digests of large files, and checksums of constants, computed by several threads: `digest_of`, `checksums`.

SHA-256 reads about 2 GB a second with one core, so that the digest of a model's file would take most of the time to load it. A
file of more than `PART` bytes has the digest of its parts' digests, which threads compute beside each other.
"""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from burn.runtime import _native

PART = 16 << 20
"""Bytes of a part: reading it takes 10 ms."""

T = TypeVar("T")


def digest_of(content: mmap.mmap | bytes) -> str:
    """A text that depends on all bytes: the SHA-256 of up to `PART` bytes, "parts" and the SHA-256 of the parts' of others."""

    def digest(at: int) -> bytes:
        found = hashlib.sha256(view[at : at + PART]).digest()
        _release(content, at)
        return found

    with memoryview(content) as view:
        return _joined(each(range(0, max(len(content), 1), PART), digest))


def offsets_of(pattern: bytes, content: mmap.mmap | bytes) -> list[int]:
    """The offsets at which a file has the bytes of a pattern, in order."""
    return scanned(pattern, content)[1]


def scanned(pattern: bytes, content: mmap.mmap | bytes) -> tuple[str, list[int]]:
    """`digest_of` and `offsets_of`, in one pass over a file: mapping its pages takes a third of the time."""

    def found(at: int) -> tuple[bytes, list[int]]:
        offsets = _native.find_all(view[at : at + PART + len(pattern) - 1], pattern)
        digest = hashlib.sha256(view[at : at + PART]).digest()
        _release(content, at)
        return digest, [at + offset for offset in offsets]

    with memoryview(content) as view:
        parts = each(range(0, max(len(content), 1), PART), found)
    offsets = [offset for _, part in parts for offset in part]
    return _joined([digest for digest, _ in parts]), offsets


def _joined(parts: Sequence[bytes]) -> str:
    """The digest of a file from those of its parts."""
    return parts[0].hex() if len(parts) == 1 else f"parts {hashlib.sha256(b''.join(parts)).hexdigest()}"


def _release(content: mmap.mmap | bytes, at: int) -> None:
    """Lets the pages of a part go, which a mapped file has again on access: a cold start holds its packed weights besides."""
    is_large = len(content) > PART
    if is_large and isinstance(content, mmap.mmap) and hasattr(content, "madvise") and at % mmap.PAGESIZE == 0:
        content.madvise(mmap.MADV_DONTNEED, at, min(PART, len(content) - at))


def checksums(buffers: Sequence[Any], done: Callable[[int], None] = lambda number: None) -> list[int]:
    """The checksum of each buffer (`_native.checksum`). done: called with the index of each buffer that was read."""

    def checksum(number: int) -> int:
        found = _native.checksum(buffers[number])
        done(number)
        return found

    if sum(memoryview(buffer).nbytes for buffer in buffers) <= PART:
        return [checksum(number) for number in range(len(buffers))]
    return each(range(len(buffers)), checksum)


def each(numbers: Sequence[int], call: Callable[[int], T]) -> list[T]:
    """The results of `call`, by as many threads as programs use. It should release the interpreter's lock. Raises what a
    call raises."""
    made: dict[int, T] = {}
    failures: list[BaseException] = []
    todo = iter(numbers)  # `next` is atomic

    def serve() -> None:
        try:
            for number in todo:
                made[number] = call(number)
        except BaseException as error:
            failures.append(error)

    threads: list[threading.Thread] = []
    with suppress(RuntimeError):  # no more threads can be started, as at the end of the process
        for _ in range(min(len(numbers), _native.num_threads()) - 1):
            thread = threading.Thread(target=serve)
            thread.start()
            threads.append(thread)
    serve()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [made[number] for number in numbers]
