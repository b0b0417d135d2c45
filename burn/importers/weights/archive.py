"""Zip archives of tensors (torch's, numpy's), read without trusting what they say. Enter at `Archive`.

Stored members stay mapped in the file, compressed members are inflated within limits. The whole directory is checked before a
member is read: names, sizes, offsets, and that no two members share bytes.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from pathlib import PurePosixPath

from burn.dialect.weights import MappedFile
from burn.errors import ModelError, Problem
from burn.importers.weights.checkpoint import overlaps

MAX_MEMBERS = 1 << 20
FREE_BYTES = 64 << 20  # may be inflated whatever the file's size
MAX_RATIO = 200  # inflated to stored, up to LARGE_BYTES
LARGE_BYTES = 2 << 30
LARGE_RATIO = 8  # above them: large archives are of weights, which hardly get smaller
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, .., lengths of the name and of the extra field (APPNOTE 4.3.7)
BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, OSError, ValueError, struct.error, NotImplementedError, EOFError,
    RuntimeError, OverflowError, IndexError,
)  # fmt: skip
"""Exceptions of the library for malformed archives."""


def inflatable(size: int) -> int:
    """How many bytes the compressed members of an archive of `size` bytes may have together; beyond, it is taken for a bomb."""
    return max(FREE_BYTES, min(MAX_RATIO * size, LARGE_BYTES), LARGE_RATIO * size)


class Archive:
    """An archive's members by name, as ranges of the mapped file. Raises ModelError listing all its problems."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        try:
            if not zipfile.is_zipfile(file.path):
                text = "it is cut short: the directory at the end of a zip archive is missing"
                raise ModelError(f"{file.path} is malformed", [Problem(text, hint="copy or download it again")])
            with zipfile.ZipFile(file.path) as opened:
                members = [m for m in opened.infolist() if not m.is_dir()]
        except BROKEN as error:
            raise ModelError(f"{file.path} is malformed", [f"its zip directory: {error}"]) from None
        if len(members) > MAX_MEMBERS:
            raise ModelError(f"{file.path} is malformed", [f"it has {len(members)} members"])
        self.members = {m.filename: m for m in members}
        twice = [name for name, count in Counter(m.filename for m in members).items() if count > 1]
        problems = [Problem("two members have this name", tensor=name) for name in twice]
        self._locations: dict[str, tuple[int, int]] = {}
        taken = []
        for name, member in self.members.items():
            try:
                self._locations[name] = self._locate(member)
            except ModelError as error:
                problems.append(Problem(error.summary, tensor=name))
                continue
            offset, length = self._locations[name]
            taken.append((member.header_offset, offset + length, name))
        problems += overlaps(taken)
        inflated = sum(m.file_size for m in self.members.values() if m.compress_type != zipfile.ZIP_STORED)
        if inflated > inflatable(file.size):
            text = (
                f"a file of {file.size} bytes says that it inflates to {inflated}, and may to {inflatable(file.size)}"
            )
            problems.append(Problem(text, hint="save it without compression"))
        if problems:
            raise ModelError(f"{file.path} is malformed", problems)

    def _locate(self, member: zipfile.ZipInfo) -> tuple[int, int]:
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or "\0" in member.filename:
            raise ModelError("its name leads out of the archive")
        if member.flag_bits & 1:
            raise ModelError("it is encrypted")
        if member.compress_type == zipfile.ZIP_STORED:
            if member.compress_size != member.file_size:
                raise ModelError("it is stored, but its sizes differ")
        elif member.compress_type != zipfile.ZIP_DEFLATED:
            raise ModelError(f"compression of kind {member.compress_type} is not supported")
        start = member.header_offset
        if start < 0 or start + LOCAL_HEADER.size > self.file.size:
            raise ModelError("it lies outside of the file")
        signature, name, extra = LOCAL_HEADER.unpack(self.file.view(start, LOCAL_HEADER.size))
        offset = start + LOCAL_HEADER.size + name + extra
        if signature != b"PK\3\4" or offset + member.compress_size > self.file.size:
            raise ModelError("it lies outside of the file")
        return offset, member.compress_size

    def location(self, name: str) -> tuple[int, int]:
        """Where a member's bytes are: offset in the file, and how many. Raises ModelError when it is compressed."""
        if not self.is_stored(name):
            raise ModelError("it is compressed, which torch never does")
        return self._locations[name]

    def is_stored(self, name: str) -> bool:
        return self.members[name].compress_type == zipfile.ZIP_STORED

    def read(self, name: str) -> memoryview:
        """A member's bytes, checked against its checksum. Raises ModelError."""
        member, (offset, length) = self.members[name], self._locations[name]
        data = self.file.view(offset, length)
        if not self.is_stored(name):
            data = memoryview(self._inflate(name, data, member.file_size))
        if zlib.crc32(data) != member.CRC:
            raise ModelError(f"{self.file.path} is damaged", [Problem("its checksum is wrong", tensor=name)])
        return data

    def _inflate(self, name: str, data: memoryview, size: int) -> bytes:
        stream = zlib.decompressobj(-15)
        try:
            inflated = stream.decompress(data, size + 1)
        except zlib.error as error:
            raise ModelError(f"{self.file.path} is damaged", [Problem(str(error), tensor=name)]) from None
        if len(inflated) != size or not stream.eof:
            raise ModelError(
                f"{self.file.path} is malformed",
                [Problem(f"it does not inflate to the {size} bytes it says", tensor=name)],
            )
        return inflated
