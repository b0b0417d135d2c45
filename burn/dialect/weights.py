"""Constants by key, outside of the IR: a program names its weights, `WeightStore` holds their bytes.

A `Weight` is an element type, a shape and a buffer. If possible the buffer is a slice of a memory-mapped file: a 1 GB
model is then read page by page while its weights are packed, and `release` frees the pages. Enter at `WeightStore`.

Sub-byte types may be stored packed, as in ONNX (first element in the lowest bits); `Weight.array` unpacks them to one
element per byte. All bytes are little-endian, as on every target of burn.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, dtype_of_numpy, numpy_dtype
from burn.errors import ModelError
from burn.runtime.constants_file import ConstantsFile, Stored
from burn.runtime.files import are_copied, mapped

MAX_BYTES = 2**48  # beyond any address space in use: a larger number of elements is malformed
MAX_RANK = 63  # numpy's limit is 64
SMALL_BYTES = 4096  # the largest constants that are compared by content; hashing large ones would read every page


def stored_bits(dtype: str) -> int:
    """Bits of an element in a file: sub-byte types are packed there, booleans are not."""
    return 8 if dtype == "bool" else DTYPES[dtype].bits


def byte_size(dtype: str, shape: tuple[int, ...], packed: bool = True) -> int:
    """The size of a stored constant in bytes. Raises ModelError for a negative dim, too many dims or too large ones."""
    if dtype not in DTYPES:
        raise ModelError("unsupported element type", [f"'{dtype}'"])
    if any(dim < 0 for dim in shape):
        raise ModelError("malformed shape", [f"negative dimension in {list(shape)}"])
    if len(shape) > MAX_RANK:
        raise ModelError("malformed shape", [f"{len(shape)} axes; there may be {MAX_RANK}"])
    elements = prod(dim for dim in shape if dim)  # an empty array also has strides
    size = -(-elements * stored_bits(dtype) // 8) if packed else elements * DTYPES[dtype].size
    if size > MAX_BYTES:
        raise ModelError("tensor too large", [f"{dtype} of shape {list(shape)} takes {size} bytes"])
    return 0 if 0 in shape else size


def unpack(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Unpacks `count` elements of 2 or 4 bits, lowest first, to one byte each; `data` is a flat array of uint8.

    Signed types need no sign extension: ml_dtypes reads the low bits only.
    """
    parts = [(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=1).reshape(-1)[:count]


ALIGNMENT = 64
"""Of constants in a program's memory, which generated code may load by aligned instructions."""

COPIED = 16 << 20
"""Bytes of a file that are copied before their pages are released."""

FILED = 16 << 10
"""Bytes of an array from which it is written to the file of constants, if there is one."""


class MappedFile:
    """A read-only memory map of a file, whose pages can be released."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._is_copy = are_copied()
            self._map = mapped(self.path) or None
            self.size = 0 if self._map is None else len(self._map)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(f"cannot read {self.path}", [reason]) from error

    @property
    def data(self) -> memoryview:
        return memoryview(self._map) if self._map is not None else memoryview(b"")

    def view(self, offset: int, length: int) -> memoryview:
        """The bytes [offset, offset + length). Raises ModelError if the file is shorter."""
        if offset < 0 or length < 0 or offset + length > self.size:
            text = f"bytes {offset} to {offset + length} of {self.path.name}, which has {self.size}"
            raise ModelError("constant lies outside of its file", [text])
        return self.data[offset : offset + length]

    def release(self, offset: int, length: int) -> None:
        """Releases the pages that hold these bytes; a later read maps them in again."""
        if self._is_copy or not isinstance(self._map, mmap.mmap) or not length or not hasattr(self._map, "madvise"):
            return
        start = offset - offset % mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, start, offset + length - start)


@dataclass(frozen=True, eq=False)
class Weight:
    """A constant: element type, shape, and its bytes.

    buffer: a flat memoryview of the stored bytes, or an array (of `shape` and the numpy type of `dtype`). packed:
    sub-byte elements are packed. file, offset: the source of a mapped buffer, for `WeightStore.release`.
    """

    dtype: str
    shape: tuple[int, ...]
    buffer: memoryview | np.ndarray
    packed: bool = False
    file: MappedFile | ConstantsFile | None = None
    offset: int = 0

    @property
    def stored(self) -> Stored | None:
        """The position in a file of constants; None for other weights."""
        return Stored(self.file, self.offset, self.nbytes) if isinstance(self.file, ConstantsFile) else None

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    def array(self) -> np.ndarray:
        """The constant as an array: a read-only view of the buffer, or an unpacked copy of a packed one.

        A view into a file has the file's alignment (`array.flags.aligned`).
        """
        if isinstance(self.buffer, np.ndarray):
            return self.buffer
        numpy_type, count = numpy_dtype(self.dtype), prod(self.shape)
        if not count:
            return np.empty(self.shape, numpy_type)
        data = np.frombuffer(self.buffer, np.uint8)
        if self.packed:
            data = unpack(data, stored_bits(self.dtype), count)
        elif self.dtype == "bool" and data.max() > 1:
            data = (data != 0).view(np.uint8)  # compiled code relies on 0 and 1
        return data.view(numpy_type).reshape(self.shape)

    def digest(self) -> str:
        """A text that is equal only for equal constants. Reads every byte."""
        if self.dtype == "string":
            content = repr(self.array().reshape(-1).tolist()).encode()
        elif isinstance(self.buffer, np.ndarray):
            content = np.ascontiguousarray(self.buffer).reshape(-1).view(np.uint8).data
        else:
            content = self.buffer
        return f"{self.dtype} {self.shape} {self.packed} {hashlib.sha256(content).hexdigest()}"


def array_weight(array: np.ndarray) -> Weight:
    """A Weight over an array in memory, which must not be changed afterwards."""
    try:
        dtype = dtype_of_numpy(array.dtype)
    except KeyError:
        raise ModelError("unsupported element type", [f"numpy dtype {array.dtype}"]) from None
    if dtype == "string" and array.dtype != object:
        array = array.astype(object)
    return Weight(dtype, array.shape, np.ascontiguousarray(array).reshape(array.shape))


def mapped_weight(file: MappedFile, offset: int, length: int, dtype: str, shape: tuple[int, ...]) -> Weight:
    """A Weight over bytes of a mapped file; exactly `length` bytes must hold the packed elements."""
    expected = byte_size(dtype, shape)
    if dtype == "string":
        raise ModelError("unsupported constant", ["strings cannot be mapped from a file"])
    if length != expected:
        raise ModelError("constant of the wrong size", [f"{dtype} {list(shape)} takes {expected} bytes, not {length}"])
    return Weight(dtype, shape, file.view(offset, length), stored_bits(dtype) < 8, file, offset)


def _parts(source: np.ndarray, weight: Weight) -> Iterator[tuple[int, np.ndarray]]:
    """The bytes of a weight in parts, with their offsets. The pages of its file are released after each."""
    for start in range(0, source.size, COPIED):
        part = source[start : start + COPIED]
        yield start, part
        if weight.file is not None:
            weight.file.release(weight.offset + start, part.size)


def _copied(array: np.ndarray, weight: Weight, alignment: int) -> np.ndarray:
    """A weight's elements in new memory."""
    memory = np.empty(array.nbytes + alignment, np.uint8)
    copy = memory[-memory.ctypes.data % alignment :][: array.nbytes]
    for start, part in _parts(array.reshape(-1).view(np.uint8), weight):
        copy[start : start + part.size] = part
    return copy.view(array.dtype).reshape(array.shape)


@dataclass
class WeightStore:
    """The constants of one program, by key. Equal small constants share a key. Adding the same bytes twice gives the
    same key."""

    _weights: dict[str, Weight] = field(default_factory=dict)
    _keys: dict[Any, str] = field(default_factory=dict)  # identity of a weight -> key
    _files: dict[Path, MappedFile] = field(default_factory=dict)
    _unpacked: dict[str, np.ndarray] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)  # next free number for a hint
    file: ConstantsFile | None = None  # of a compilation whose program goes to the cache

    def add(self, weight: Weight, hint: str = "weight") -> str:
        """Stores a weight under a key made from the hint (a name from the source model), or returns its existing key."""
        identity = self._identity(weight)
        key = self._keys.get(identity)
        if key is None:
            key = self._keys[identity] = self._new_key(hint)
            self._weights[key] = weight
        return key

    def add_array(self, array: np.ndarray, hint: str = "weight") -> str:
        """Stores an array, which must not be changed afterwards."""
        weight = array_weight(np.asarray(array))
        return self.add(self._filed(weight) if self.file is not None else weight, hint)

    def add_file(
        self,
        path: str | os.PathLike[str],
        offset: int,
        length: int,
        dtype: str,
        shape: tuple[int, ...],
        hint: str = "weight",
    ) -> str:
        """Stores `length` bytes of a file without reading them. Raises ModelError if they do not fit type and shape."""
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

    def get_aligned(self, key: str, alignment: int = ALIGNMENT, to_file: bool = False) -> np.ndarray:
        """The constant as an array in memory that starts at a multiple of `alignment` bytes: without a copy if it does already. A
        file's pages are released while they are copied, so that the bytes are in memory once. to_file:
        copy them to the file of constants, if there is one."""
        array, weight = self.get(key), self._weights[key]
        if not isinstance(weight.file, MappedFile) or weight.packed or not array.nbytes:
            return array
        source = array.reshape(-1).view(np.uint8)
        if to_file and self.file is not None and array.nbytes >= FILED:
            with suppress(OSError), self.file.adding(array.nbytes) as offset:
                for start, part in _parts(source, weight):
                    self.file.write_part(offset + start, part.data)
                self._weights[key] = replace(
                    weight, buffer=self.file.view(offset, array.nbytes), file=self.file, offset=offset
                )
                return self._weights[key].array()
        return array if array.ctypes.data % alignment == 0 else _copied(array, weight, alignment)

    def get_once(self, key: str) -> np.ndarray:
        """The constant as an array whose elements are aligned, for code that reads it once. Those of a file that are not are
        copied as `get_aligned` copies them. A program would copy them with the file's pages in memory."""
        array, weight = self.get(key), self._weights[key]
        return array if array.flags.aligned or weight.file is None else _copied(array, weight, array.itemsize)

    def _filed(self, weight: Weight) -> Weight:
        """The weight in the file of constants; itself if it is small, and if the file system has no room for it."""
        if self.file is None or weight.nbytes < FILED or weight.dtype == "string":
            return weight
        try:
            offset = self.file.add(weight.array())
        except OSError:
            return weight
        return replace(weight, buffer=self.file.view(offset, weight.nbytes), file=self.file, offset=offset)

    def release(self, key: str) -> None:
        """Releases the memory of a constant that was read; it can be read again."""
        self._unpacked.pop(key, None)
        weight = self._weights[key]
        if weight.file is not None:
            weight.file.release(weight.offset, weight.nbytes)

    def remove(self, key: str) -> None:
        """Removes a constant that the program no longer names."""
        weight = self._weights.pop(key)
        self._unpacked.pop(key, None)
        self._keys.pop(self._identity(weight), None)

    def copy(self) -> WeightStore:
        """A copy of the store with the same keys, which can be changed independently; the bytes are shared."""
        return WeightStore(dict(self._weights), dict(self._keys), dict(self._files), {}, dict(self._next))

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
            return kind, hashlib.blake2b(weight.buffer.tobytes(), digest_size=16).digest()
        if weight.file is not None:
            return kind, weight.file.path, weight.offset
        # The store holds the buffer, so its address stays unique.
        return kind, np.asarray(weight.buffer).__array_interface__["data"][0]

    def _new_key(self, hint: str) -> str:
        base = re.sub(r"[^\w./:-]+", "_", hint) or "weight"
        key, number = base, self._next.get(base, 1)
        while key in self._weights:
            key, number = f"{base}_{number}", number + 1
        self._next[base] = number
        return key
