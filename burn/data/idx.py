"""MNIST and its kin: arrays in idx files, as they are or packed by gzip."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from burn.data.memory import Memory
from burn.errors import DataError

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_LARGEST = 1 << 34  # bytes; a header that says more is no data set's
_CHUNK = 1 << 24  # bytes that are read at once
_NAMES = {"train": "train", "test": "t10k"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an idx file. Raises DataError for a file that is none, is cut off, or holds more than its header says."""
    try:
        with cast(BinaryIO, gzip.open(path) if str(path).endswith(".gz") else open(path, "rb")) as file:
            return _array(file)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path} is no idx file that can be read", [str(error)]) from error


def _array(file: BinaryIO) -> np.ndarray:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
        raise ValueError("it does not begin as one")
    dtype, rank = np.dtype(_TYPES[head[2]]), head[3]
    sizes = file.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise ValueError("it ends in its header")
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    size = math.prod(shape) * dtype.itemsize
    if size > _LARGEST:
        raise ValueError(f"its header says {list(shape)}")
    data = b"".join(_chunks(file, size + 1))
    if len(data) != size:
        raise ValueError(f"its header says {list(shape)}, and it holds {'more' if len(data) > size else 'less'}")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Up to so many bytes of a file, which may have fewer: no memory is taken for what a header only says."""
    while size > 0 and (data := file.read(min(size, _CHUNK))):
        size -= len(data)
        yield data


class Mnist(Memory):
    """MNIST's images, uint8 of [28, 28], and their labels, from the folder that has its files; also Fashion-MNIST and other data
    sets with the same file names. part: "train" (60,000 images) or "test" (10,000). Raises DataError for missing files."""

    def __init__(self, folder: str | os.PathLike[str], part: str = "train") -> None:
        if part not in _NAMES:
            raise DataError(f"MNIST has no part '{part}'", [f"there are {', '.join(_NAMES)}"])
        images = read_idx(_file(Path(folder), f"{_NAMES[part]}-images-idx3-ubyte"))
        labels = read_idx(_file(Path(folder), f"{_NAMES[part]}-labels-idx1-ubyte"))
        super().__init__((images, labels.astype(np.int64)))


def _file(folder: Path, name: str) -> Path:
    candidates = [folder / name, folder / f"{name}.gz"]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise DataError("MNIST's files are missing", [f"there is neither {' nor '.join(map(str, candidates))}"])
    return found
