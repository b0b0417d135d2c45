"""Constants by key, kept out of the IR: a program names its weights, `WeightStore` holds their bytes.

A `Weight` is an element type, a shape and a buffer. The buffer is a slice of a memory-mapped file whenever it can be, so that
a 1 GB model is read page by page as its weights are packed, and `release` gives the pages back. Enter at `WeightStore`.

Sub-byte types may be stored packed, as ONNX does (first element in the lowest bits); `Weight.array` unpacks them to one
element a byte. All bytes are little-endian, as on every machine that burn targets.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from burn.errors import ModelError

# Element type -> (numpy's type for an unpacked array, bits an element takes when packed).
ELEMENT_TYPES: dict[str, tuple[np.dtype, int]] = {
    "float64": (np.dtype(np.float64), 64),
    "float32": (np.dtype(np.float32), 32),
    "float16": (np.dtype(np.float16), 16),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), 16),
    "float8_e4m3fn": (np.dtype(ml_dtypes.float8_e4m3fn), 8),
    "float8_e4m3fnuz": (np.dtype(ml_dtypes.float8_e4m3fnuz), 8),
    "float8_e5m2": (np.dtype(ml_dtypes.float8_e5m2), 8),
    "float8_e5m2fnuz": (np.dtype(ml_dtypes.float8_e5m2fnuz), 8),
    "float8_e8m0fnu": (np.dtype(ml_dtypes.float8_e8m0fnu), 8),
    "float6_e2m3fn": (np.dtype(ml_dtypes.float6_e2m3fn), 6),
    "float6_e3m2fn": (np.dtype(ml_dtypes.float6_e3m2fn), 6),
    "float4_e2m1fn": (np.dtype(ml_dtypes.float4_e2m1fn), 4),
    "int4": (np.dtype(ml_dtypes.int4), 4),
    "uint4": (np.dtype(ml_dtypes.uint4), 4),
    "int2": (np.dtype(ml_dtypes.int2), 2),
    "uint2": (np.dtype(ml_dtypes.uint2), 2),
    "int8": (np.dtype(np.int8), 8),
    "int16": (np.dtype(np.int16), 16),
    "int32": (np.dtype(np.int32), 32),
    "int64": (np.dtype(np.int64), 64),
    "uint8": (np.dtype(np.uint8), 8),
    "uint16": (np.dtype(np.uint16), 16),
    "uint32": (np.dtype(np.uint32), 32),
    "uint64": (np.dtype(np.uint64), 64),
    "bool": (np.dtype(np.bool_), 8),
    "complex64": (np.dtype(np.complex64), 64),
    "complex128": (np.dtype(np.complex128), 128),
    "string": (np.dtype(object), 0),
}
_NAMES = {dtype: name for name, (dtype, _) in ELEMENT_TYPES.items()}

MAX_BYTES = 2**48  # beyond any address space in use: a larger product of dims is malformed, not merely large
SMALL_BYTES = 4096  # up to here constants are compared by content; hashing the large ones would read every page

_digest = hashlib.blake2b


def element_type(dtype: Any) -> str:
    """burn's name of a numpy dtype. Raises ModelError for a dtype that burn has no name for."""
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        return "string"
    name = _NAMES.get(dtype.newbyteorder("="))
    if name is None:
        raise ModelError("unsupported element type", [f"numpy dtype {dtype} has no counterpart in burn"])
    return name


def byte_size(dtype: str, shape: tuple[int, ...], packed: bool = True) -> int:
    """Bytes that a constant takes as stored. Raises ModelError when a dim is negative or the product overflows."""
    if dtype not in ELEMENT_TYPES:
        raise ModelError("unsupported element type", [f"'{dtype}'"])
    if any(dim < 0 for dim in shape):
        raise ModelError("malformed shape", [f"negative dimension in {list(shape)}"])
    if 0 in shape:
        return 0
    numpy_type, bits = ELEMENT_TYPES[dtype]
    size = -(-prod(shape) * bits // 8) if packed else prod(shape) * numpy_type.itemsize
    if size > MAX_BYTES:
        raise ModelError("tensor too large", [f"{dtype} of shape {list(shape)} takes {size} bytes"])
    return size


def unpack(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Spread `count` packed elements of 2, 4 or 6 bits over one byte each; `data` is a flat array of uint8.

    The packed form is a bit stream, lowest bits first. Signed types need no sign extension: ml_dtypes reads the low bits.
    """
    if bits == 6:  # 4 elements share 3 bytes
        groups = np.zeros((-(-count // 4), 3), np.uint8)
        groups.reshape(-1)[: data.size] = data
        b0, b1, b2 = groups.T
        parts = [b0 & 63, (b0 >> 6) | ((b1 & 15) << 2), (b1 >> 4) | ((b2 & 3) << 4), b2 >> 2]
    else:
        parts = [(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=1).reshape(-1)[:count]


class MappedFile:
    """A read-only memory map of a file, and the way to give its pages back."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(f"cannot read {self.path}", [reason]) from error

    @property
    def data(self) -> memoryview:
        return memoryview(self._map) if self._map is not None else memoryview(b"")

    def view(self, offset: int, length: int) -> memoryview:
        """The bytes [offset, offset + length). Raises ModelError when the file is shorter."""
        if offset < 0 or length < 0 or offset + length > self.size:
            text = f"bytes {offset} to {offset + length} of {self.path.name}, which has {self.size}"
            raise ModelError("constant lies outside of its file", [text])
        return self.data[offset : offset + length]

    def release(self, offset: int, length: int) -> None:
        """Drop the pages that hold these bytes from memory; a later read brings them back from the file."""
        if self._map is None or not length or not hasattr(self._map, "madvise"):
            return
        start = offset - offset % mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, start, offset + length - start)


@dataclass(frozen=True, eq=False)
class Weight:
    """A constant: element type, shape, and its bytes where they lie.

    buffer: a flat memoryview of the bytes as stored, or an array (of `shape` and the numpy type of `dtype`).
    packed: sub-byte elements share bytes. file, offset: where a mapped buffer came from, for `WeightStore.release`.
    """

    dtype: str
    shape: tuple[int, ...]
    buffer: memoryview | np.ndarray
    packed: bool = False
    file: MappedFile | None = None
    offset: int = 0

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    def array(self) -> np.ndarray:
        """The constant as an array: a read-only view of the buffer, or an unpacked copy of a packed one.

        A view into a file has whatever alignment the file gave it (`array.flags.aligned`).
        """
        if isinstance(self.buffer, np.ndarray):
            return self.buffer
        numpy_type, bits = ELEMENT_TYPES[self.dtype]
        count = prod(self.shape)
        if not count:
            return np.empty(self.shape, numpy_type)
        data = np.frombuffer(self.buffer, np.uint8)
        if self.packed and bits < 8:
            data = unpack(data, bits, count)
        elif self.dtype == "bool" and data.max() > 1:
            data = (data != 0).view(np.uint8)  # compiled code counts on 0 and 1
        return data.view(numpy_type).reshape(self.shape)


def array_weight(array: np.ndarray) -> Weight:
    """A Weight over an array in memory, which must not be changed afterwards."""
    dtype = element_type(array.dtype)
    if dtype == "string" and array.dtype != object:
        array = array.astype(object)
    return Weight(dtype, array.shape, np.ascontiguousarray(array).reshape(array.shape))


def mapped_weight(file: MappedFile, offset: int, length: int, dtype: str, shape: tuple[int, ...]) -> Weight:
    """A Weight over bytes of a mapped file, of which exactly `length` must hold the packed elements."""
    expected = byte_size(dtype, shape)
    if dtype == "string":
        raise ModelError("unsupported constant", ["strings cannot be mapped from a file"])
    if length != expected:
        raise ModelError("constant of the wrong size", [f"{dtype} {list(shape)} takes {expected} bytes, not {length}"])
    packed = ELEMENT_TYPES[dtype][1] < 8
    return Weight(dtype, shape, file.view(offset, length), packed, file, offset)


@dataclass
class WeightStore:
    """The constants of one program, by key. Equal small constants and the same bytes added twice share a key."""

    _weights: dict[str, Weight] = field(default_factory=dict)
    _keys: dict[Any, str] = field(default_factory=dict)  # what makes two weights the same -> key
    _files: dict[Path, MappedFile] = field(default_factory=dict)
    _unpacked: dict[str, np.ndarray] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)  # first free number after a hint

    def add(self, weight: Weight, hint: str = "weight") -> str:
        """Store a weight under a key made from the hint (a name from the source model), or find the key that it has."""
        identity = self._identity(weight)
        key = self._keys.get(identity)
        if key is None:
            key = self._keys[identity] = self._new_key(hint)
            self._weights[key] = weight
        return key

    def add_array(self, array: np.ndarray, hint: str = "weight") -> str:
        """Store an array, which must not be changed afterwards."""
        return self.add(array_weight(np.asarray(array)), hint)

    def add_file(
        self,
        path: str | os.PathLike[str],
        offset: int,
        length: int,
        dtype: str,
        shape: tuple[int, ...],
        hint: str = "weight",
    ) -> str:
        """Store `length` bytes of a file without reading them. Raises ModelError when they do not fit type and shape."""
        resolved = Path(path).resolve()
        if resolved not in self._files:
            self._files[resolved] = MappedFile(resolved)
        return self.add(mapped_weight(self._files[resolved], offset, length, dtype, tuple(shape)), hint)

    def weight(self, key: str) -> Weight:
        return self._weights[key]

    def get(self, key: str) -> np.ndarray:
        """The constant as an array, without a copy unless it is packed; an unpacked copy is kept until `release`."""
        if key in self._unpacked:
            return self._unpacked[key]
        weight = self._weights[key]
        array = weight.array()
        if weight.packed:
            self._unpacked[key] = array
        return array

    def release(self, key: str) -> None:
        """Give back the memory that reading the constant took; it can be read again."""
        self._unpacked.pop(key, None)
        weight = self._weights[key]
        if weight.file is not None:
            weight.file.release(weight.offset, weight.nbytes)

    def remove(self, key: str) -> None:
        """Forget a constant that the program no longer names."""
        weight = self._weights.pop(key)
        self._unpacked.pop(key, None)
        self._keys.pop(self._identity(weight), None)

    def items(self) -> Iterator[tuple[str, Weight]]:
        return iter(self._weights.items())

    def __contains__(self, key: str) -> bool:
        return key in self._weights

    def __len__(self) -> int:
        return len(self._weights)

    def _identity(self, weight: Weight) -> Any:
        kind = (weight.dtype, weight.shape, weight.packed)
        if weight.dtype == "string":
            return kind, tuple(weight.array().reshape(-1).tolist())
        if weight.nbytes <= SMALL_BYTES:
            return kind, _digest(_raw_bytes(weight), digest_size=16).digest()
        if weight.file is not None:
            return kind, weight.file.path, weight.offset
        # The store holds the buffer, so that its id stays its own.
        return kind, id(weight.buffer)

    def _new_key(self, hint: str) -> str:
        base = re.sub(r"[^\w./:-]+", "_", hint) or "weight"
        key, number = base, self._next.get(base, 1)
        while key in self._weights:
            key, number = f"{base}_{number}", number + 1
        self._next[base] = number
        return key


def _raw_bytes(weight: Weight) -> bytes:
    return weight.buffer.tobytes()
