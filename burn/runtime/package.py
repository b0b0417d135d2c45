"""Compiled programs as one file, which is mapped into memory to load one of them.

    0     magic "BURNPROG"
    8     u32 format version, u32 zero
    16    u64 file size
    24    u64 offset, u64 size     header: JSON, UTF-8
    40    u64 offset, u64 size     code: relocatable objects, each followed by its GPU kernels (all 64-byte aligned)
    56    u64 offset, u64 size     constants (4096-byte aligned; each constant in it 64-byte aligned)
    72    SHA-256 of the header and the code
    104   u64 offset of the signature, or 0
    112   zeros
    128   header, code and constants in any order, with zeros between; the signature (signing.py) is the file's last 64 bytes

All numbers are little-endian. The header lists the programs: the same model for several CPUs and GPUs, the best first;
loading takes the first that runs here. Programs share constants. The header has fast checksums of the constants, which a load
verifies to find damage (of an entry of the cache once: verified.py). A compiled program is machine code: write access to the file
is control over the process. Only a required signature prevents this. It is verified after the magic and the format version, and
before anything else is read.

Start at `save` and `load`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from burn.errors import ModelError, Problem
from burn.runtime import files, host, signing
from burn.runtime.artefact import (
    CODE_ALIGNMENT,
    CONSTANT_ALIGNMENT,
    Artefact,
    Buffer,
    Signature,
    Target,
    decode,
    described,
)
from burn.runtime.constants_file import START, ConstantsFile
from burn.runtime.device import CPU, Device, device_of

MAGIC = b"BURNPROG"
COMPILED = ".burn"
"""Suffix of packages: code in other files is never run."""
VERSION = 7
_PREFIX = struct.Struct("<8sII7Q32sQ")
_HEADER_AT = 128
_CONSTANTS_ALIGNMENT = 4096
_WRONG_HEADER = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)
"""The errors of code that reads a header of another shape."""

Name = str | os.PathLike[str]


def save(programs: Sequence[Artefact], path: Name, key: Name | None = None, *, durable: bool = True) -> None:
    """Writes the file whole or not at all; with the key's signature, if one is given. durable: as `files.whole` has it. Raises
    BurnError for what is no key."""
    for program in programs:
        program.check_portable()
    signer = None if key is None else signing.private_key(key)
    pieces, offsets = _shared(programs)
    headers = []
    code = bytearray()
    for program, constants_at in zip(programs, offsets, strict=True):
        code += bytes(-len(code) % CODE_ALIGNMENT)
        header, own = program.header(len(code), constants_at)
        headers.append(header)
        code += own
    encoded = json.dumps({"programs": headers}, separators=(",", ":")).encode()
    code_at = _align(_HEADER_AT + len(encoded), CODE_ALIGNMENT)
    constants_at = _align(code_at + len(code), _CONSTANTS_ALIGNMENT)
    constants_size = max((_align(at + _size(piece), CONSTANT_ALIGNMENT) for at, piece in pieces), default=0)
    end = constants_at + constants_size
    size = end + signing.BYTES * bool(signer)
    sections = ((_HEADER_AT, len(encoded)), (code_at, len(code)), (constants_at, constants_size))
    prefix = _prefix(size, sections, _digest(encoded, code), end if signer else 0)
    with files.whole(Path(path), durable) as file:
        written = [(0, prefix), (_HEADER_AT, encoded), (code_at, code)]
        for at, data in (*written, *((constants_at + at, piece) for at, piece in pieces)):
            file.seek(at)
            file.write(data)
        file.truncate(end)
        if signer:
            file.flush()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                signature = signing.sign(signer, content)
            file.seek(end)
            file.write(signature)


def finish(program: Artefact, file: ConstantsFile, path: Path) -> None:
    """Writes a program behind the constants that its compilation has written to a file, and gives the file that name. Constants
    that are not in the file are added. Raises OSError."""
    program.check_portable()
    offsets = []
    for constant in program.constants:
        stored = constant.stored
        at = stored.offset if stored is not None and stored.file is file else file.add(memoryview(constant.data))
        offsets.append(at - START)
    header, code = program.header(0, offsets)
    encoded = json.dumps({"programs": [header]}, separators=(",", ":")).encode()
    code_at = _align(file.end, CODE_ALIGNMENT)
    header_at = code_at + len(code)
    sections = ((header_at, len(encoded)), (code_at, len(code)), (START, file.end - START))
    end = header_at + len(encoded)
    prefix = _prefix(end, sections, _digest(encoded, code), 0)
    file.write_around([(code_at, code), (header_at, encoded), (0, prefix)], end)
    file.give_name(path)


def load(path: Name, signed_by: Name | None = None, where: Device = CPU, check: bool = True) -> Artefact:
    """The program of a package that is for this machine and that device. signed_by: the public key that the file must be
    signed with. check: verify the checksums of constants. Raises ModelError for another file, and BurnError for what is no
    key."""
    return chosen(read(path, signed_by, check), where)


def chosen(programs: Sequence[Artefact], where: Device = CPU) -> Artefact:
    """The first program that runs here, else the first for this architecture, whose executable then names the missing
    features."""
    if len(programs) == 1:
        return programs[0]  # no driver is opened to say so
    lacking = (_lacking(program.target, where) for program in programs)
    return programs[next((at for at, problems in enumerate(lacking) if not problems), _nearest(programs))]


def placed(target: Target, where: Device) -> Device:
    """The device of a program for a requested device: a GPU program runs on the first GPU if none was named."""
    return device_of(target) if where == CPU else where


def _lacking(target: Target, where: Device) -> list[Problem]:
    device = placed(target, where)
    return device.loader.cannot_run(target, device)


def _nearest(programs: Sequence[Artefact]) -> int:
    here = host.architecture()
    return next((at for at, program in enumerate(programs) if program.target.triple.split("-")[0] == here), 0)


def read(path: Name, signed_by: Name | None = None, check: bool = True) -> list[Artefact]:
    """All programs of a package. With `signed_by` its bytes are read first, and those that were looked at are those that run."""
    path = Path(path)
    try:
        mapped = memoryview(files.mapped(path) if signed_by is None else files.copied(path))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    if mapped.nbytes < _HEADER_AT:
        raise _malformed(path, f"{mapped.nbytes} bytes are too few")
    header, code, constants = _sections(path, mapped, signed_by)
    try:
        return [decode(each, code, constants, check) for each in _programs(header)]
    except _WRONG_HEADER as error:
        raise _malformed(path, f"the header is malformed: {error!r}") from error


def headers(path: Name, unnoted: bool = False) -> list[tuple[Target, Signature, tuple[str, ...]]]:
    """The targets and signatures of a package's programs, and the versions that made them. Constants are not read. Raises
    ModelError. unnoted: see `files.opened`."""
    path = Path(path)
    try:
        mapped = memoryview(files.mapped(path, unnoted))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    if mapped.nbytes < _HEADER_AT:
        raise _malformed(path, f"{mapped.nbytes} bytes are too few")
    header, _, _ = _sections(path, mapped, None)
    try:
        return [described(each) for each in _programs(header)]
    except _WRONG_HEADER as error:
        raise _malformed(path, f"the header is malformed: {error!r}") from error


def _programs(header: memoryview) -> list[object]:
    """The header of each program, at least one. Raises KeyError, TypeError, ValueError and RecursionError."""
    listed = json.loads(bytes(header))["programs"]
    if not isinstance(listed, list) or not listed:
        raise ValueError("it lists no program")
    return listed


def _shared(programs: Sequence[Artefact]) -> tuple[list[tuple[int, Buffer]], list[list[int]]]:
    """Every constant's bytes once with its offset, and each program's constants' offsets."""
    pieces: list[tuple[int, Buffer]] = []
    known: dict[bytes, int] = {}
    offsets: list[list[int]] = []
    at = 0
    for program in programs:
        offsets.append([])
        for constant in program.constants:
            digest = hashlib.sha256(constant.data).digest() if len(programs) > 1 else None
            offset = None if digest is None else known.get(digest)
            if offset is None:
                offset = at
                pieces.append((at, constant.data))
                at = _align(at + constant.bytes, CONSTANT_ALIGNMENT)
                if digest is not None:
                    known[digest] = offset
            offsets[-1].append(offset)
    return pieces, offsets


def _prefix(size: int, sections: Sequence[tuple[int, int]], digest: bytes, signature_at: int) -> bytes:
    """The first bytes of a file. sections: offset and size of the header, the code and the constants."""
    return _PREFIX.pack(MAGIC, VERSION, 0, size, *(n for section in sections for n in section), digest, signature_at)


def _digest(header: bytes, code: bytes | bytearray) -> bytes:
    digest = hashlib.sha256(header)
    digest.update(code)
    return digest.digest()


def _size(data: Buffer) -> int:
    return memoryview(data).nbytes


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _malformed(path: Path, *problems: str) -> ModelError:
    return ModelError(f"{path} is not a compiled program that can be loaded", [Problem(p) for p in problems])


def _sections(path: Path, mapped: memoryview, signed_by: Name | None) -> tuple[memoryview, memoryview, memoryview]:
    """Header, code and constants, after checking that they are where the prefix says and unharmed."""
    magic, version, _, size, *table, digest, signature_at = _PREFIX.unpack_from(mapped)
    if magic != MAGIC:
        raise _malformed(path, "it does not start with the bytes of one")
    if version != VERSION:
        raise _malformed(path, f"its format is version {version}; this burn reads version {VERSION}: compile it again")
    if signed_by is not None:
        signing.check(signing.public_key(signed_by), path, mapped, signature_at)
    problems = []
    if size != mapped.nbytes:
        problems.append(f"the file has {mapped.nbytes} bytes and should have {size}")
    if signature_at not in (0, size - signing.BYTES):
        problems.append(f"the signature would be at offset {signature_at}")
    bounds = list(zip(table[0::2], table[1::2], strict=True))
    alignments = (1, CODE_ALIGNMENT, _CONSTANTS_ALIGNMENT)
    end = _HEADER_AT
    for (offset, length), alignment, name in sorted(
        zip(bounds, alignments, ("header", "code", "constants"), strict=True)
    ):
        if offset < end or offset % alignment or length > mapped.nbytes - offset:
            problems.append(f"the {name} would be {length} bytes at offset {offset}")
        end = offset + length
    if end != (signature_at or size):
        problems.append(f"the last section would end at offset {end}")
    if problems:
        raise _malformed(path, *problems)
    header, code, constants = (mapped[offset : offset + length] for offset, length in bounds)
    found = hashlib.sha256(header)
    found.update(code)
    if found.digest() != digest:
        raise _malformed(path, "the checksum of its header and code is wrong")
    return header, code, constants
