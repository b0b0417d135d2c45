"""numpy's .npy and .npz files (numpy/lib/format.py), read mapped and never unpickled. Enter at `read`."""

from __future__ import annotations

import ast
import os
import zipfile
from collections.abc import Mapping

import numpy as np

from burn.dialect.types import DTYPES, dtype_of_numpy
from burn.dialect.weights import MappedFile, Weight, array_weight, byte_size
from burn.errors import ModelError, Problem
from burn.importers.weights.archive import Archive
from burn.importers.weights.checkpoint import Checkpoint, replacing

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1 << 16
MAX_RANK = 64


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """The arrays of a .npz archive by name, or the one of a .npy file, called "value". Raises ModelError.

    Arrays in row-major order that are not compressed stay in the file."""
    file = MappedFile(path)
    checkpoint = Checkpoint(path=path, kind="numpy")
    if file.size >= 6 and bytes(file.view(0, 6)) == MAGIC:
        checkpoint["value"] = _array(file.view(0, file.size), file, 0)
        return checkpoint
    archive = Archive(file)
    problems = []
    for member in archive.members:
        name = member.removesuffix(".npy")
        try:
            stored = archive.is_stored(member)
            offset = archive.location(member)[0] if stored else 0
            checkpoint[name] = _array(archive.read(member), file if stored else None, offset)
        except ModelError as error:
            problems.append(Problem("; ".join([error.summary, *map(str, error.problems)]), tensor=name))
    if problems:
        raise ModelError(f"{path} is malformed", problems)
    return checkpoint


def write(path: str | os.PathLike[str], tensors: Mapping[str, Weight]) -> None:
    """Writes a .npz archive, whole or not at all. Raises ModelError listing tensors of types that numpy lacks."""
    own = {"float64", "float32", "float16", "bool", "complex64", "complex128"}
    problems = [
        Problem(f"numpy has no {w.dtype}", tensor=n, hint="safetensors files have")
        for n, w in tensors.items()
        if w.dtype not in own and not (DTYPES[w.dtype].kind in ("int", "uint") and DTYPES[w.dtype].bits >= 8)
    ]
    if problems:
        raise ModelError(f"{path} cannot be written", problems)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, weight in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(weight.array()).reshape(weight.shape))  # type: ignore[arg-type]
            if weight.file is not None:
                weight.file.release(weight.offset, weight.nbytes)


def _array(data: memoryview, file: MappedFile | None, offset: int) -> Weight:
    """The array in the bytes of a .npy file, which lie at `offset` of a mapped file, if they do."""
    dtype, fortran, shape, start = _header(data)
    try:
        name = dtype_of_numpy(dtype)
    except KeyError:
        name = ""
    if not name or name == "string":
        raise ModelError(f"the element type {dtype} is not supported")
    if len(shape) > MAX_RANK:
        raise ModelError(f"{len(shape)} axes are too many")
    size = byte_size(name, shape, packed=False)
    if len(data) - start != size:
        raise ModelError(f"{name} of shape {list(shape)} takes {size} bytes, not {len(data) - start}")
    little = dtype.byteorder in "<|" or (dtype.byteorder == "=" and np.little_endian)
    if little and not (fortran and len(shape) > 1):
        return Weight(name, shape, data[start:], False, file, offset + start if file is not None else 0)
    array = np.frombuffer(data[start:], dtype).reshape(shape, order="F" if fortran else "C")
    return array_weight(np.ascontiguousarray(array.astype(dtype.newbyteorder("="), copy=False)).reshape(shape))


def _header(data: memoryview) -> tuple[np.dtype, bool, tuple[int, ...], int]:
    """Element type, whether columns come first, shape, and where the elements begin."""
    head = bytes(data[:12])
    if len(head) < 12 or head[:6] != MAGIC or head[6] not in (1, 2, 3):
        raise ModelError("it is not in numpy's format")
    width = 2 if head[6] == 1 else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    start = 8 + width + length
    if length > MAX_HEADER or start > len(data):
        raise ModelError("its header is too long")
    try:
        header = ast.literal_eval(bytes(data[8 + width : start]).decode("utf-8" if head[6] == 3 else "latin-1"))
        description, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        if not isinstance(description, str) or len(header) != 3 or type(fortran) is not bool:
            raise ValueError("it is not of one plain element type")
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError("its shape is malformed")
        dtype = np.dtype(description)
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError, UnicodeDecodeError) as error:
        raise ModelError(f"its header is malformed: {error}") from None
    if dtype.hasobject:
        raise ModelError("it holds Python objects, which only unpickling would read")
    return dtype, fortran, shape, start
