"""Tensors of strings outside of a run: one buffer of count + 1 offsets (int64), then the UTF-8 bytes of all (heap.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def pack(array: np.ndarray) -> np.ndarray:
    """An object array of str as its buffer: uint8[n]. Raises UnicodeEncodeError for what is not Unicode."""
    texts = [text.encode() for text in array.reshape(-1).tolist()]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(offsets.tobytes() + b"".join(texts), np.uint8)


def unpack(buffer: Any, shape: Sequence[int]) -> np.ndarray:
    """The array of a buffer. Raises ValueError for a malformed one."""
    count = math.prod(shape)
    data = memoryview(buffer).cast("B")
    head = 8 * (count + 1)
    offsets = np.frombuffer(data[:head], np.int64) if data.nbytes >= head else np.array([1, 0])
    if np.any(np.diff(offsets) < 0) or offsets[0] < 0 or offsets[-1] > data.nbytes - head:
        raise ValueError(f"{data.nbytes} bytes do not hold {count} strings")
    array = np.empty(count, object)
    for i in range(count):
        array[i] = bytes(data[head + offsets[i] : head + offsets[i + 1]]).decode()
    return array.reshape(tuple(shape))
