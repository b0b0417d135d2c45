"""Machine code of one GPU kernel as a file in the cache: `save` and `load`.

    0     magic "BURNKERN"
    8     u32 format version, u32 bytes of the header
    16    u64 bytes of the machine code
    24    SHA-256 of all that follows
    56    header: JSON, UTF-8; then the machine code

All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import NamedTuple

from burn.errors import ModelError
from burn.runtime import files
from burn.runtime.artefact import KernelImage

MAGIC = b"BURNKERN"
VERSION = 1
_PREFIX = struct.Struct("<8sIIQ32s")


class CompiledKernel(NamedTuple):
    """A kernel, the GPU that it was compiled for ("cuda", "sm_90"), and the version of the compiler ("triton 3.6.0")."""

    image: KernelImage
    gpu: str
    architecture: str
    made_by: str


def save(kernel: CompiledKernel, path: Path) -> None:
    """Writes the file whole or not at all. Raises OSError."""
    image = kernel.image
    fields = {"name": image.name, "shared": image.shared, "threads": image.threads, "early": int(image.early)}
    fields |= {"gpu": kernel.gpu, "architecture": kernel.architecture, "made_by": kernel.made_by}
    header = json.dumps(fields, separators=(",", ":")).encode()
    data = bytes(image.data)
    digest = hashlib.sha256(header + data).digest()
    with files.whole(path, durable=False) as file:
        file.write(_PREFIX.pack(MAGIC, VERSION, len(header), len(data), digest))
        file.write(header + data)


def load(path: Path, unnoted: bool = False) -> CompiledKernel:
    """Raises ModelError for another file, or a damaged one. unnoted: see `files.opened`."""
    try:
        content = files.content(path, unnoted)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    try:
        magic, version, header_bytes, data_bytes, digest = _PREFIX.unpack_from(content)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError(f"it is not a kernel in version {VERSION} of the format")
        body = content[_PREFIX.size :]
        if len(body) != header_bytes + data_bytes:
            raise ValueError(f"it has {len(content)} bytes")
        if hashlib.sha256(body).digest() != digest:
            raise ValueError("its checksum is wrong")
        return _decoded(body[:header_bytes], body[header_bytes:])
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} is not a compiled kernel that can be loaded", [str(error)]) from error


def _decoded(header: bytes, data: bytes) -> CompiledKernel:
    fields = json.loads(header)
    name, gpu, architecture, made_by = (fields[key] for key in ("name", "gpu", "architecture", "made_by"))
    shared, threads, early = fields["shared"], fields["threads"], fields.get("early", 0)
    if not all(isinstance(text, str) for text in (name, gpu, architecture, made_by)):
        raise TypeError("its header has a name that is no text")
    if not all(
        type(number) is int and 0 <= number < 1 << 31 for number in (shared, threads, early)
    ):  # true and false are none
        raise TypeError("its header has a size that is no number")
    return CompiledKernel(KernelImage(name, data, shared, threads, early != 0), gpu, architecture, made_by)
