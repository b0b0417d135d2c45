"""Entries of a cache as one file, for other machines of the same kind: `export` and `read`, `load` merges one into a cache.

    0     magic "BURNCACH"
    8     u32 format version, u32 zero
    16    u64 file size
    24    u64 offset, u64 size     index: JSON, UTF-8
    40    SHA-256 of the index
    72    u64 offset of the signature, or 0
    80    zeros
    128   entries, each 64-byte aligned; the index; the signature (signing.py), the file's last 64 bytes

All numbers are little-endian. The index has each entry's name, offset, size and SHA-256. A name is a digest of the entry's key
and a suffix (cache.py), so that it names no file outside of the cache.

Entries are machine code that programs run when they would compile the same. Write access to the file is control over these
programs, as with a package. Only a required signature prevents this. It is verified after the magic and the format version, and
before anything else is read.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import struct
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from burn.errors import BurnError, ModelError, Problem
from burn.runtime import files, host, kernel_file, package, registry, signing, versions
from burn.runtime.artefact import Target
from burn.runtime.cache import KERNEL, PROGRAM, Cache

MAGIC = b"BURNCACH"
VERSION = 1
MOST_INDEX = 256 << 20
_PREFIX = struct.Struct("<8sII3Q32sQ")
_START = struct.Struct("<8sI")
"""The magic and the format version that a program and a kernel begin with."""
_ENTRIES_AT = 128
_ALIGNMENT = 64
_NAME = re.compile(rf"[0-9a-f]{{64}}({re.escape(PROGRAM)}|{re.escape(KERNEL)})")
_CHUNK = 1 << 24

Name = str | os.PathLike[str]


@dataclass(frozen=True)
class Entry:
    """A program or a kernel of a cache.

    name: as `Cache.named` has it. target: the CPU and GPU that it is for; a kernel has no CPU. made_by: the versions of all that
    made it. about: a kernel's name, or the types of a program. used: seconds since 1970."""

    name: str
    target: Target
    made_by: tuple[str, ...]
    about: str
    bytes: int
    used: float = 0.0

    @property
    def is_kernel(self) -> bool:
        return self.name.endswith(KERNEL)

    @property
    def architecture(self) -> str:
        """Of the GPU, or of the CPU."""
        return self.target.architecture or self.target.triple.split("-")[0]

    def of_other_versions(self) -> list[str]:
        """The versions that made it and are others here, so that no program here finds it."""
        return [version for version in self.made_by or ("an unknown version",) if version not in _versions_here()]


@dataclass
class Merged:
    """The result of `load`: how many entries are new, how many the cache had, and for the others the reasons with counts."""

    added: int = 0
    present: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str) -> None:
        """Counts one more entry that is refused for this reason."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def _versions_here() -> tuple[str, ...]:
    packages = {name for kind in registry.kinds() for name in registry.entry(kind).packages}
    return versions.compilers(sorted(packages))


# ---- the entries of a cache ------------------------------------------------------------------------------------------
def entries(cache: Cache) -> list[Entry]:
    """All entries that this user may use, the last used first. Left out are damaged ones, and those that another process
    evicts."""
    found = []
    for path in cache.entries():
        with suppress(OSError, ModelError):
            if cache.distrusted(path) is None:
                found.append(_described(path.parent.name + path.name, path))
    return sorted(found, key=lambda entry: (-entry.used, entry.name))


def _described(name: str, path: Path) -> Entry:
    """Raises ModelError and OSError. A list is no use of the entry."""
    status = path.stat()
    if name.endswith(KERNEL):
        kernel = kernel_file.load(path, unnoted=True)
        target, made_by, about = Target("", (), kernel.gpu, kernel.architecture), (kernel.made_by,), kernel.image.name
    else:
        target, signature, made_by = package.headers(path, unnoted=True)[0]
        inputs, outputs = (", ".join(v.type_text for v in values) for values in (signature.inputs, signature.outputs))
        about = f"{inputs} -> {outputs}"
    return Entry(name, target, made_by, about, status.st_size, status.st_atime)


# ---- writing ---------------------------------------------------------------------------------------------------------
def export(cache: Cache, chosen: Iterable[Entry], path: Name, key: Name | None = None) -> list[Entry]:
    """Writes entries of a cache as one file, whole or not at all, with the key's signature if one is given. Entries that another
    process evicts meanwhile are left out; returns the others. Raises OSError, and BurnError for what is no key."""
    signer = None if key is None else signing.private_key(key)
    index, written = [], []
    with files.whole(Path(path)) as file:
        end = _ENTRIES_AT
        for entry in sorted(chosen, key=lambda entry: entry.name):  # the same entries give the same bytes
            try:
                data = files.mapped(cache.named(entry.name))
            except (OSError, ModelError):
                continue
            at = -(-end // _ALIGNMENT) * _ALIGNMENT
            file.seek(at)
            file.write(data)
            end = at + len(data)
            index.append(
                {"name": entry.name, "offset": at, "bytes": len(data), "sha256": _digest(memoryview(data)).hex()}
            )
            written.append(entry)
        encoded = json.dumps({"entries": index}, separators=(",", ":")).encode()
        file.seek(end)
        file.write(encoded)
        whole = end + len(encoded)
        size = whole + signing.BYTES * bool(signer)
        digest = hashlib.sha256(encoded).digest()
        file.seek(0)
        file.write(_PREFIX.pack(MAGIC, VERSION, 0, size, end, len(encoded), digest, whole if signer else 0))
        if signer:
            file.flush()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                signature = signing.sign(signer, content)
            file.seek(whole)
            file.write(signature)
    return written


# ---- reading ---------------------------------------------------------------------------------------------------------
def read(path: Name, signed_by: Name | None = None) -> list[tuple[str, memoryview]]:
    """The names and bytes of a file's entries. signed_by: the public key that the file must be signed with; the file is read
    into memory first. Raises ModelError for another or a damaged file, and BurnError for what is no key."""
    path = Path(path)
    try:
        mapped = memoryview(files.mapped(path) if signed_by is None else files.copied(path))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    if mapped.nbytes < _ENTRIES_AT:
        raise _malformed(path, f"{mapped.nbytes} bytes are too few")
    index, end = _index(path, mapped, signed_by)
    try:
        listed = json.loads(bytes(index))["entries"]
        if not isinstance(listed, list):
            raise TypeError("its entries are no list")
        found = [_entry(value, mapped[:end]) for value in listed]
        if len({name for name, _ in found}) != len(found):
            raise ValueError("two entries have one name")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise _malformed(path, f"the index is malformed: {error}") from error
    return found


def _index(path: Path, mapped: memoryview, signed_by: Name | None) -> tuple[memoryview, int]:
    """The index, and the offset at which the entries end."""
    magic, version, _, size, at, length, digest, signature_at = _PREFIX.unpack_from(mapped)
    if magic != MAGIC:
        raise _malformed(path, "it does not start with the bytes of one")
    if version != VERSION:
        raise _malformed(path, f"its format is version {version}; this burn reads version {VERSION}: export it again")
    if signed_by is not None:
        signing.check(signing.public_key(signed_by), path, mapped, signature_at)
    if size != mapped.nbytes:
        raise _malformed(path, f"the file has {mapped.nbytes} bytes and should have {size}")
    if signature_at not in (0, size - signing.BYTES):
        raise _malformed(path, f"the signature would be at offset {signature_at}")
    if at < _ENTRIES_AT or length > MOST_INDEX or at + length != (signature_at or size):
        raise _malformed(path, f"the index would be {length} bytes at offset {at}")
    index = mapped[at : at + length]
    if hashlib.sha256(index).digest() != digest:
        raise _malformed(path, "the checksum of its index is wrong")
    return index, at


def _entry(value: dict[str, object], section: memoryview) -> tuple[str, memoryview]:
    """Raises KeyError, TypeError or ValueError."""
    name, at, length, digest = (value[key] for key in ("name", "offset", "bytes", "sha256"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.80} is the name of no entry")
    if not isinstance(at, int) or not isinstance(length, int) or isinstance(at, bool) or isinstance(length, bool):
        raise TypeError(f"{name} has no offset and size")
    if at < _ENTRIES_AT or at % _ALIGNMENT or length < 0 or at + length > section.nbytes:
        raise ValueError(f"{name} would be {length} bytes at offset {at}")
    data = section[at : at + length]
    if _digest(data).hex() != digest:
        raise ValueError(f"the checksum of {name} is wrong")
    return name, data


def _digest(data: memoryview) -> bytes:
    made = hashlib.sha256()
    for at in range(0, data.nbytes, _CHUNK):
        made.update(data[at : at + _CHUNK])
    return made.digest()


def _malformed(path: Path, problem: str) -> ModelError:
    return ModelError(f"{path} is no exported cache that can be imported", [Problem(problem)])


# ---- merging ---------------------------------------------------------------------------------------------------------
def load(cache: Cache, path: Name, signed_by: Name | None = None, gpus: Sequence[tuple[str, str]] = ()) -> Merged:
    """Merges the entries of a file into a cache: those that it lacks, and that programs of this machine can use. Programs may run
    meanwhile: an entry appears whole, and none is overwritten.

    gpus: the kind and architecture of the GPUs that are here. Entries for a kind without one are merged, as in the build of a
    container. Raises ModelError for a file that cannot be read, BurnError for a cache that is turned off or too small, and
    OSError."""
    if not cache.size:
        raise BurnError("the cache is turned off", [Problem("BURN_CACHE_SIZE is 0", hint="unset it, or give a size")])
    listed = read(path, signed_by)
    total = sum(data.nbytes for _, data in listed)
    if total > cache.size:
        hint = "BURN_CACHE_SIZE is the limit"
        raise BurnError(
            f"{path} does not fit into the cache",
            [Problem(f"its entries have {total} bytes, the cache has {cache.size}", hint=hint)],
        )
    merged = Merged()
    try:
        for name, data in listed:
            _merge(cache, name, data, gpus, merged)
    finally:
        if merged.added:  # also of a file whose later entry cannot be used
            cache.make_room()
    return merged


def _merge(cache: Cache, name: str, data: memoryview, gpus: Sequence[tuple[str, str]], merged: Merged) -> None:
    path = cache.named(name)
    cache.make_folders(path)
    if path.exists():
        merged.present += 1
        return
    if (reason := _of_another_format(name, data)) is not None:
        merged.refuse(reason)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        try:
            entry = _described(name, Path(temporary))
            if not entry.is_kernel:
                package.read(temporary)
        except ModelError as error:
            why = "; ".join(problem.message for problem in error.problems) or str(error)
            raise ModelError(f"the entry {name} cannot be used", [why]) from error
        if (reason := _useless(entry, gpus)) is not None:
            merged.refuse(reason)
        elif _linked(temporary, path):
            merged.added += 1
        else:
            merged.present += 1
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _of_another_format(name: str, data: memoryview) -> str | None:
    """The reason to refuse a whole entry that is in another version of its format, which another burn wrote."""
    made = kernel_file if name.endswith(KERNEL) else package
    if data.nbytes < _START.size:
        return None
    magic, version = _START.unpack_from(data)
    if magic != made.MAGIC or version == made.VERSION:
        return None
    return f"in version {version} of its format, and here is version {made.VERSION}"


def _linked(made: str, path: Path) -> bool:
    """Gives a finished file its name; false if another process has made one meanwhile."""
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: of two equal entries the later one stays
        os.replace(made, path)
    return True


def _useless(entry: Entry, gpus: Sequence[tuple[str, str]]) -> str | None:
    """The reason why no program of this machine can use an entry."""
    if others := entry.of_other_versions():
        return f"made by {', '.join(others)}, which is another version here"
    if not entry.is_kernel and (lacking := host.missing_features(entry.target)):
        return f"for another CPU: {lacking[0].message}"
    gpu = (entry.target.gpu, entry.target.architecture)
    alike = dict.fromkeys(each for each in gpus if each[0] == gpu[0])
    if alike and gpu not in alike:
        return f"for {' '.join(gpu)}, and here is {', '.join(map(' '.join, alike))}"
    return None
