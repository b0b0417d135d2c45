"""Weights as TensorProtos: inside the model, or as a reference to a file beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import onnx
from burn.dialect.weights import Weight, stored_bits
from burn.exporters.onnx.graph import CODES

CHUNK = 1 << 24  # bytes that are copied at a time


def to_proto(name: str, weight: Weight) -> onnx.TensorProto:
    """The constant with its elements."""
    tensor = header(name, weight)
    if weight.dtype == "string":
        tensor.string_data.extend(str(s).encode() for s in weight.array().reshape(-1))
    else:
        tensor.raw_data = b"".join(stored(weight))
    return tensor


def header(name: str, weight: Weight) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=CODES[weight.dtype], dims=weight.shape)


def stored_bytes(weight: Weight) -> int:
    """How many bytes the elements take in a file."""
    count = int(np.prod(weight.shape, dtype=np.int64))
    return -(-count * stored_bits(weight.dtype) // 8)


def stored(weight: Weight) -> Iterator[bytes]:
    """The elements as ONNX stores them, piece by piece: little-endian, sub-byte types packed with the first element lowest."""
    if isinstance(weight.buffer, memoryview) and weight.dtype != "bool":
        flat = weight.buffer.cast("B")
    else:
        array = np.ascontiguousarray(weight.array()).reshape(-1)
        bits = stored_bits(weight.dtype)
        packed = pack(array, bits) if bits < 8 else array.view(np.uint8) if array.size else np.empty(0, np.uint8)
        flat = packed.data
    for start in range(0, len(flat), CHUNK):
        yield bytes(flat[start : start + CHUNK])


def pack(array: np.ndarray, bits: int) -> np.ndarray:
    """Elements of 2 or 4 bits, one a byte, as bytes that hold several of them."""
    each = 8 // bits
    padded = np.zeros(-(-array.size // each) * each, np.uint8)
    padded[: array.size] = array.view(np.uint8) & ((1 << bits) - 1)
    shifts = np.arange(each, dtype=np.uint8) * bits
    return np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1).astype(np.uint8)
