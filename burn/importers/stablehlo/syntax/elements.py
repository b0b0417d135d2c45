"""Elements of `dense<...>` and of resources as numpy arrays. Enter at `dense` and `from_bytes`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.importers.stablehlo.syntax.cursor import Cursor
from burn.importers.stablehlo.syntax.module import Elements, QuantizedType, Ranked

_NUMBER = re.compile(r"[^\[\],\s()]+")
_INDEX = "index"


def stored(type_: Ranked) -> str | None:
    """The element type in which a tensor's elements are stored; None if burn has none."""
    element = type_.element.dtype if isinstance(type_.element, QuantizedType) else type_.element
    return "int64" if element == _INDEX else element if element in DTYPES else None


def dense(cursor: Cursor, body: str, type_: Ranked) -> Elements:
    """The elements between the angle brackets of `dense<body> : type_`."""
    dtype = stored(type_)
    if dtype is None:
        cursor.fail(f"constants of {type_.element} are not supported")
    if any(size is None for size in type_.shape):
        cursor.fail("a constant has a size that is not known")
    count = math.prod(size or 0 for size in type_.shape)
    body = body.strip()
    if body.startswith('"'):
        try:
            data = bytes.fromhex(body.strip('"').removeprefix("0x"))
        except ValueError:
            cursor.fail("a constant's bytes are not hexadecimal")
        return from_bytes(cursor, data, type_)
    words = _NUMBER.findall(body)
    array = _of_words(cursor, words, dtype)
    if count != array.size and not (array.size == 1 and not body.startswith("[")):
        cursor.fail(f"a constant of {count} elements has {array.size}")
    return Elements(type_, array, count != array.size)


def from_bytes(cursor: Cursor, data: bytes, type_: Ranked) -> Elements:
    """Elements in the machine's order, one after the other, or a single one that is repeated."""
    dtype = stored(type_)
    if dtype is None:
        cursor.fail(f"constants of {type_.element} are not supported")
    count, size = math.prod(s or 0 for s in type_.shape), DTYPES[dtype].size
    if dtype == "bool":
        if len(data) == 1 and count != 1 and data in (b"\xff", b"\x00"):
            return Elements(type_, np.array([data == b"\xff"]), True)
        if len(data) == count:
            return Elements(type_, np.frombuffer(data, np.uint8) != 0, False)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        if not count <= bits.size < count + 8:
            cursor.fail(f"a constant of {count} elements has {len(data)} bytes")
        return Elements(type_, bits[:count].astype(bool), False)
    if len(data) not in (size * count, size):
        cursor.fail(f"a constant of {count} elements has {len(data)} bytes, not {size * count}")
    array = np.frombuffer(data, numpy_dtype(dtype))
    return Elements(type_, array, array.size != count)


def _of_words(cursor: Cursor, words: list[str], dtype: str) -> np.ndarray:
    row = DTYPES[dtype]
    array = numpy_dtype(dtype)
    try:
        if row.kind == "complex":
            part = np.dtype(np.float32 if row.size == 8 else np.float64)
            numbers = np.array([_float(word, part) for word in words], part)
            return numbers.view(array)
        if row.kind in ("float", "small"):
            return np.array([_float(word, array) for word in words], array)
        if row.kind == "bool":
            return np.array([_flag(word) for word in words], bool)
        return _integers(words, row.kind, row.bits).astype(array)
    except (ValueError, OverflowError, KeyError):
        cursor.fail(f"a constant of {dtype} has an element that is none")


def _float(word: str, dtype: np.dtype[Any]) -> Any:
    if word.startswith("0x"):
        return np.array(int(word, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return dtype.type(float(word))


_flag: Callable[[str], bool] = {"true": True, "false": False, "1": True, "0": False, "-1": True}.__getitem__


def _integers(words: list[str], kind: str, bits: int) -> np.ndarray:
    numbers = [int({"true": "1", "false": "0"}.get(word, word), 0) for word in words]
    low, high = (-(1 << (bits - 1)), (1 << bits) - 1)
    if any(not low <= n <= high for n in numbers):
        raise OverflowError
    top, modulus = 1 << (bits - 1), 1 << bits
    if kind == "int":
        return np.array([n - modulus if n >= top else n for n in numbers], np.int64)
    return np.array([n % modulus for n in numbers], np.uint64)
