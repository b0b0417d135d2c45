"""A compiled program as one file, which is mapped into memory to load it.

    0     magic "BURNPROG"
    8     u32 format version, u32 zero
    16    u64 file size
    24    u64 offset, u64 size     header: JSON, UTF-8
    40    u64 offset, u64 size     code: a relocatable object, behind it the kernels for a card (64-byte aligned)
    56    u64 offset, u64 size     constants (4096-byte aligned; each constant in it 64-byte aligned)
    72    SHA-256 of the header and the code
    104   zeros
    128   header, code, constants, with zeros between

All numbers are little-endian. The header holds everything in `Artefact` but the bytes of the code and the constants.
The constants have checksums of their own in the header, fast enough to be looked at whenever a program is loaded: they find
damage. A compiled program is machine code: whoever may write the file decides what runs.

Enter at `Artefact.save` and `Artefact.load`; `Executable` runs one.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from burn.errors import ModelError, Problem
from burn.runtime import _native, files, sizes, strings
from burn.runtime.dtypes import DTYPES, name_of, numpy_dtype

MAGIC = b"BURNPROG"
COMPILED = ".burn"
"""What a compiled program's name ends in: no other file's contents are ever run."""
VERSION = 4
_PREFIX = struct.Struct("<8sII7Q32s")
_HEADER_AT = 128
_CODE_ALIGNMENT, _CONSTANTS_ALIGNMENT, _CONSTANT_ALIGNMENT = 64, 4096, 64
_MAX_RANK = 63  # numpy's limit is 64
_MAX_DEPTH = 8
CONTAINERS = {"sequence": "s", "optional": "o"}
"""What may be around tensors, and how the native part calls it."""

Buffer = bytes | bytearray | memoryview | mmap.mmap


@dataclass(frozen=True)
class ValueSpec:
    """An input or an output: a tensor, or sequences and optionals of tensors.

    `containers` says what is around the tensors, from outside in: "sequence" (a list) or "optional" (the value or None).
    Each tensor in a container has sizes of its own where `dims` has a name, and any rank if `any_rank`."""

    name: str
    dtype: str  # a name in dtypes.DTYPES
    dims: tuple[int | str, ...]  # a size, or an expression over symbols
    donated_to: int | None = None  # of an input: the output that may take over its memory when the caller gives it up
    containers: tuple[str, ...] = ()
    any_rank: bool = False

    @property
    def type_text(self) -> str:
        """The type for people: "float32[batch, 3]", "sequence of int64[?]"."""
        dims = "..." if self.any_rank else ", ".join(map(str, self.dims))
        return "".join(f"{kind} of " for kind in self.containers) + f"{self.dtype}[{dims}]"


@dataclass(frozen=True)
class Signature:
    """What a program takes and gives.

    With `random_state` the program's entry has one input more than listed, the last: uint64[2], a seed and the number
    of the call, which the executable supplies.
    """

    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    random_state: bool = False


@dataclass(frozen=True)
class Constant:
    """A constant of the program: dense, row-major. Strings are packed as strings.py says."""

    dtype: str
    shape: tuple[int, ...]
    data: Buffer

    @staticmethod
    def of(array: np.ndarray) -> Constant:
        """Without a copy when the array is contiguous; an array of objects holds strings."""
        if array.dtype == object:
            return Constant("string", array.shape, strings.pack(array).data)
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return Constant(name_of(array.dtype), array.shape, flat.data)

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.dtype, self.shape, memoryview(self.data).tobytes())

    @property
    def bytes(self) -> int:
        return memoryview(self.data).nbytes

    def array(self) -> np.ndarray:
        """A read-only view; of strings a copy."""
        if self.dtype == "string":
            return strings.unpack(self.data, self.shape)
        array = np.frombuffer(self.data, np.uint8).view(numpy_dtype(self.dtype)).reshape(self.shape)
        array.flags.writeable = False
        return array


@dataclass(frozen=True)
class KernelInfo:
    """One kernel or library call, for profiles and messages."""

    name: str
    kind: str = ""  # "gemm", "pointwise" ...
    sources: tuple[str, ...] = ()  # the source nodes it computes
    flops: str = "0"  # of one call: expressions over size symbols
    bytes: str = "0"
    reads: tuple[int, ...] = ()  # the kernels whose results it takes
    step: int = 0  # of the program's, as live ranges count them


@dataclass(frozen=True)
class KernelImage:
    """Machine code of one kernel for a card, and how it is launched."""

    name: str  # of the function in it
    data: Buffer = field(repr=False)
    shared: int = 0  # bytes of dynamic shared memory
    threads: int = 32  # of a block

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelImage, (self.name, memoryview(self.data).tobytes(), self.shared, self.threads)


@dataclass(frozen=True)
class Target:
    """Where the code runs: the host's, and where kernels run on a card, that."""

    triple: str
    features: tuple[str, ...] = ()  # LLVM's names; all of them are required
    card: str = ""  # "cuda"; "" for a program of the host's alone
    architecture: str = ""  # of the card: "sm_90"


@dataclass(frozen=True)
class Artefact:
    """A compiled program. `code` defines the function `entry`, see burn_rt.h."""

    signature: Signature
    target: Target
    code: Buffer = field(repr=False)
    constants: tuple[Constant, ...] = field(default=(), repr=False)
    live_ranges: tuple[tuple[int, int], ...] = ()  # per planned buffer: first and last step
    buffers: tuple[str, ...] = ()  # and its bytes, an expression over size symbols
    kernels: tuple[KernelInfo, ...] = ()
    sites: tuple[str, ...] = ()  # source nodes that run-time errors name by index
    images: tuple[KernelImage, ...] = ()  # what the entry function launches on a card, by number
    symbols: Mapping[str, str] = field(default_factory=dict)  # size symbol -> where its value comes from
    entry: str = "burn_entry"
    burn_version: str = _native.__version__

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in a pickle, with the bytes in it."""
        values = [getattr(self, field.name) for field in fields(self)]
        return Artefact, tuple(bytes(v) if isinstance(v, memoryview) else v for v in values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file whole or not at all."""
        path = Path(path)
        header, offset, code = self._header()
        encoded = json.dumps(header, separators=(",", ":")).encode()
        code_at = _align(_HEADER_AT + len(encoded), _CODE_ALIGNMENT)
        code_size = len(code)
        constants_at = _align(code_at + code_size, _CONSTANTS_ALIGNMENT)
        digest = hashlib.sha256(encoded)
        digest.update(code)
        prefix = _PREFIX.pack(
            MAGIC, VERSION, 0, constants_at + offset,
            _HEADER_AT, len(encoded), code_at, code_size, constants_at, offset, digest.digest(),
        )  # fmt: skip
        with files.whole(path) as file:
            for at, data in ((0, prefix), (_HEADER_AT, encoded), (code_at, code)):
                file.seek(at)
                file.write(data)
            for entry, constant in zip(header["constants"], self.constants, strict=True):
                file.seek(constants_at + entry["offset"])
                file.write(constant.data)
            file.truncate(constants_at + offset)

    def _header(self) -> tuple[dict[str, Any], int, bytes]:
        """The header, the size of the constants' section, and the code's section."""
        code = bytearray(self.code)
        images = []
        for image in self.images:
            code += bytes(-len(code) % _CODE_ALIGNMENT)
            size = memoryview(image.data).nbytes
            place = {"offset": len(code), "bytes": size}
            images.append({"name": image.name, "shared": image.shared, "threads": image.threads} | place)
            code += image.data
        header: dict[str, Any] = {name: asdict(getattr(self, name)) for name in ("signature", "target")} | {
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "live_ranges": self.live_ranges,
            "buffers": self.buffers,
            "sites": self.sites,
            "symbols": dict(self.symbols),
            "entry": self.entry,
            "code": memoryview(self.code).nbytes,
            "images": images,
            "burn_version": self.burn_version,
            "constants": [],
        }
        offset = 0
        for constant in self.constants:
            header["constants"].append(
                {
                    "offset": offset,
                    "bytes": constant.bytes,
                    "dtype": constant.dtype,
                    "shape": constant.shape,
                    "checksum": _native.checksum(constant.data),
                }
            )
            offset = _align(offset + constant.bytes, _CONSTANT_ALIGNMENT)
        return header, offset, bytes(code)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Artefact:
        """Maps the file. Raises ModelError for a damaged one.

        A compiled program runs with all the rights of this process: load none that you would not run."""
        path = Path(path)
        try:
            mapped = memoryview(files.mapped(path))
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror}") from error
        if mapped.nbytes < _HEADER_AT:
            raise _malformed(path, f"{mapped.nbytes} bytes are too few")
        sections = _sections(path, mapped)
        try:
            return _decode(json.loads(bytes(sections[0])), *sections[1:])
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            raise _malformed(path, f"the header is malformed: {error!r}") from error


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _malformed(path: Path, *problems: str) -> ModelError:
    return ModelError(f"{path} is not a compiled program that can be loaded", [Problem(p) for p in problems])


def _sections(path: Path, mapped: memoryview) -> tuple[memoryview, memoryview, memoryview]:
    """Header, code and constants, after checking that they are where the prefix says and unharmed."""
    magic, version, _, size, *table, digest = _PREFIX.unpack_from(mapped)
    if magic != MAGIC:
        raise _malformed(path, "it does not start with the bytes of one")
    if version != VERSION:
        raise _malformed(path, f"its format is version {version}; this burn reads version {VERSION}: compile it again")
    problems = []
    if size != mapped.nbytes:
        problems.append(f"the file has {mapped.nbytes} bytes and should have {size}")
    bounds = list(zip(table[0::2], table[1::2], strict=True))
    alignments = (1, _CODE_ALIGNMENT, _CONSTANTS_ALIGNMENT)
    for name, (offset, length), alignment in zip(("header", "code", "constants"), bounds, alignments, strict=True):
        if offset < _HEADER_AT or offset % alignment or offset > mapped.nbytes or length > mapped.nbytes - offset:
            problems.append(f"the {name} would be {length} bytes at offset {offset}")
    if problems:
        raise _malformed(path, *problems)
    header, code, constants = (mapped[offset : offset + length] for offset, length in bounds)
    found = hashlib.sha256(header)
    found.update(code)
    if found.digest() != digest:
        raise _malformed(path, "the checksum of its header and code is wrong")
    return header, code, constants


# ---- the header ------------------------------------------------------------------------------------------------------
# Each function takes a piece of JSON and raises KeyError, TypeError or ValueError for one of another shape.


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError(f"{value!r} is not a size or index")
    return value


def _value_spec(value: Any) -> ValueSpec:
    dtype = _text(value["dtype"])
    if dtype not in DTYPES:
        raise ValueError(f"unknown element type '{dtype}'")
    dims = tuple(_count(dim) if isinstance(dim, int) else sizes.parse(_text(dim)).text for dim in value["dims"])
    if len(dims) > _MAX_RANK:
        raise ValueError(f"a tensor of rank {len(dims)}")
    donated = value["donated_to"]
    containers = tuple(map(_text, value.get("containers", ())))
    if any(kind not in CONTAINERS for kind in containers) or len(containers) > _MAX_DEPTH:
        raise ValueError(f"a value in {containers}")
    donated = None if donated is None else _count(donated)
    return ValueSpec(_text(value["name"]), dtype, dims, donated, containers, bool(value.get("any_rank", False)))


def _signature(value: Any) -> Signature:
    inputs = tuple(map(_value_spec, value["inputs"]))
    outputs = tuple(map(_value_spec, value["outputs"]))
    for spec in inputs:
        if spec.donated_to is not None and spec.donated_to >= len(outputs):
            raise ValueError(f"input '{spec.name}' is donated to output {spec.donated_to}, which does not exist")
    return Signature(inputs, outputs, bool(value["random_state"]))


def _kernel(value: Any) -> KernelInfo:
    flops, bytes_ = sizes.parse(_text(value["flops"])).text, sizes.parse(_text(value["bytes"])).text
    sources, reads = tuple(map(_text, value["sources"])), tuple(map(_count, value["reads"]))
    return KernelInfo(_text(value["name"]), _text(value["kind"]), sources, flops, bytes_, reads, _count(value["step"]))


def _constant(value: Any, section: memoryview) -> Constant:
    offset, length, dtype = _count(value["offset"]), _count(value["bytes"]), _text(value["dtype"])
    shape = tuple(map(_count, value["shape"]))
    if offset % _CONSTANT_ALIGNMENT or offset > section.nbytes or length > section.nbytes - offset:
        raise ValueError(f"a constant of {length} bytes at offset {offset} of {section.nbytes}")
    if dtype == "string":
        strings.unpack(section[offset : offset + length], shape)
    elif length != math.prod(shape) * numpy_dtype(dtype).itemsize:
        raise ValueError(f"a constant of type {dtype} and shape {shape} in {length} bytes")
    data = section[offset : offset + length]
    if _native.checksum(data) != value["checksum"]:
        raise ValueError(f"a constant of type {dtype} and shape {shape} whose bytes are damaged")
    return Constant(dtype, shape, data)


def _part(section: memoryview, offset: int, length: int) -> memoryview:
    if offset > section.nbytes or length > section.nbytes - offset:
        raise ValueError(f"{length} bytes of code at {offset} of {section.nbytes}")
    return section[offset : offset + length]


def _target(value: Any) -> Target:
    features = tuple(map(_text, value["features"]))
    return Target(_text(value["triple"]), features, _text(value["card"]), _text(value["architecture"]))


def _image(value: Any, code: memoryview) -> KernelImage:
    data = _part(code, _count(value["offset"]), _count(value["bytes"]))
    return KernelImage(_text(value["name"]), data, _count(value["shared"]), _count(value["threads"]))


def _decode(header: Any, code: memoryview, constants: memoryview) -> Artefact:
    if header["buffers"] and len(header["buffers"]) != len(header["live_ranges"]):
        raise ValueError("as many buffers as live ranges are wanted")
    return Artefact(
        signature=_signature(header["signature"]),
        target=_target(header["target"]),
        code=_part(code, 0, _count(header["code"])),
        images=tuple(_image(value, code) for value in header["images"]),
        constants=tuple(_constant(value, constants) for value in header["constants"]),
        live_ranges=tuple((_count(first), _count(last)) for first, last in header["live_ranges"]),
        buffers=tuple(sizes.parse(_text(size)).text for size in header["buffers"]),
        kernels=tuple(map(_kernel, header["kernels"])),
        sites=tuple(map(_text, header["sites"])),
        symbols={_text(name): _text(origin) for name, origin in header["symbols"].items()},
        entry=_text(header["entry"]),
        burn_version=_text(header["burn_version"]),
    )
