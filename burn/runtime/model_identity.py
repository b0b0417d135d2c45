"""The identity of a model's file in the cache of compiled programs: digests of its bytes and of the files that it refers to.

Reading every byte of a large model takes longer than the rest of a load from the cache. So the cache also holds a note for each
large file. It has the digest, the names of the files, and the file's status: device, inode, size, times of the last changes. A
file with the noted status has the noted bytes. Each change sets the time of the last change of status, which no program can
set back. Clocks of file systems have ticks, and pages that a process has mapped for writing may change for seconds after the time
was set. Therefore a file that changed less than `SETTLED` seconds before it was read gets no note. Files that a model refers to
are treated as the model's own.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from burn.errors import ModelError
from burn.runtime import notes
from burn.runtime.cache import Cache
from burn.runtime.digests import digest_of, scanned
from burn.runtime.files import mapped

LARGE = 4 << 20
"""Bytes from which on a file gets a note: reading fewer takes a few milliseconds."""
SETTLED = 60.0
"""Seconds since the last change. Linux writes changed pages within 30 seconds, and then sets the time again for later changes."""
MAX_EXTERNAL_NAME = 4096
_MODEL, _DATA = "model", "data"
"""The kinds of files that have notes: models, and the files that they refer to."""
_EXTERNAL = b"\n\x08location"  # protobuf: key = "location"
_VALUE = b"\x12"  # the value's tag, which comes next in all but odd files


class Identity(NamedTuple):
    """The identity of a model at one time. digests: all that its entry in the cache depends on. statuses: of its file and of each
    file that it refers to, None for one that is absent. So two identities are equal only if no file was replaced meanwhile."""

    digests: tuple[str, ...]
    statuses: tuple[tuple[int, ...] | None, ...]


def identity(path: Path, status: os.stat_result, content: mmap.mmap | bytes) -> Identity | None:
    """The digest of a model's file, and the name and digest of each file that it refers to. None if it refers to files in a way
    that is not understood here: such a program is not cached.

    status: that of the file before it was mapped as `content`."""
    facts = _noted(path, _MODEL, status) or _read(path, _MODEL, status, content)
    if facts.companions is None:
        return None
    digests = [facts.digest]
    statuses: list[tuple[int, ...] | None] = [_key(status)]
    for name in facts.companions:
        digest, key = _companion(path.parent, name)
        digests.append(f"{name} {digest}")
        statuses.append(key)
    return Identity(tuple(digests), tuple(statuses))


def _companion(folder: Path, name: str) -> tuple[str, tuple[int, ...] | None]:
    """The digest and status of a file that a model refers to, "absent" for one that cannot be read. Names that lead out of the
    folder are not followed: the importer refuses them."""
    if os.path.isabs(name) or ".." in Path(name).parts:
        return "absent", None
    file = folder / name
    with suppress(OSError, ModelError):
        status = file.stat()
        facts = _noted(file, _DATA, status)
        if facts is None:
            content = mapped(file)
            try:
                facts = _read(file, _DATA, status, content)
            finally:
                if isinstance(content, mmap.mmap):
                    content.close()
        return facts.digest, _key(status)
    return "absent", None


class _Facts(NamedTuple):
    """Facts that depend on a file's bytes and on its name's ending. companions: names of other files whose contents belong to the
    model, relative to its folder; None if one is named in an unusual order."""

    digest: str
    companions: list[str] | None


def _read(path: Path, kind: str, status: os.stat_result, content: mmap.mmap | bytes) -> _Facts:
    """From the file's bytes. It writes a note if the file is large and has not changed lately."""
    start = time.time()
    if kind == _MODEL and path.suffix != ".mlir":
        digest, offsets = scanned(_EXTERNAL, content)
        facts = _Facts(digest, _external_files(content, offsets))
    else:  # the weights of an IR text, or data
        facts = _Facts(digest_of(content), [path.with_suffix(".safetensors").name] if kind == _MODEL else [])
    if status.st_size >= LARGE and start - max(status.st_mtime, status.st_ctime) > SETTLED:
        with suppress(OSError):  # a cache that cannot be written to, or a file that is gone
            if _key(path.stat()) == _key(status):
                text = json.dumps({"status": _key(status), "parts": facts.digest, "companions": facts.companions})
                notes.save(Cache.from_environment(), _note(path, kind), text)
    return facts


def _noted(path: Path, kind: str, status: os.stat_result) -> _Facts | None:
    """From the note, if the file is still the one that was read."""
    if status.st_size < LARGE or (text := notes.read(Cache.from_environment(), _note(path, kind))) is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        noted = json.loads(text)
        companions = noted["companions"]
        if tuple(noted["status"]) == _key(status) and (
            companions is None or all(isinstance(n, str) for n in companions)
        ):
            return _Facts(str(noted["parts"]), companions)
    return None


def _note(path: Path, kind: str) -> str:
    """The note's name. A file may be a model, and another model's data."""
    return f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()}.{kind}"


def _key(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _external_files(content: mmap.mmap | bytes, offsets: Sequence[int]) -> list[str] | None:
    """The names of an ONNX model's external data. offsets: of the bytes _EXTERNAL, which are searched without parsing. A false
    match does no harm."""
    found: set[bytes] = set()
    for at in offsets:
        start = at + len(_EXTERNAL)
        if content[start : start + 1] != _VALUE:
            return None
        length, begin = _varint(content, start + 1)
        if length <= MAX_EXTERNAL_NAME:
            found.add(content[begin : begin + length])
    return [os.fsdecode(name) for name in sorted(found) if b"\0" not in name]


def _varint(content: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    """A protobuf number and where it ends."""
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
