"""Flax's msgpack files (`flax.serialization.to_bytes`), read mapped and written. Enter at `read` and `write`.

A file is one msgpack value (https://github.com/msgpack/msgpack/blob/master/spec.md): maps by text, lists, and leaves. An array is
extension 1, which holds the msgpack list [shape, element type's name, bytes]. Extension 3 is the same for a scalar of numpy, 2 a
complex number. An array of more than 1 GiB is a map of its pieces (flax/serialization.py).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES
from burn.dialect.weights import MappedFile, Weight, array_weight, byte_size
from burn.errors import ModelError, Problem
from burn.importers.weights.checkpoint import Checkpoint, replacing, write_weight

PARAMETERS = "params"
"""Flax's collection of trained arrays. Names of parameters begin inside of it."""

STATE = ("batch_stats", "cache", "spectral_stats")
"""Flax's other collections. Names of their arrays begin with the collection's."""

TRAINING = frozenset({"step", "opt_state", "tx", "rng"})
"""Members of a training state that are no variables: no module takes them."""

ARRAY, COMPLEX, SCALAR = 1, 2, 3
PIECES = "__msgpack_chunked_array__"
LARGEST = 1 << 30
"""Bytes of an array that flax writes in one piece."""

MAX_DEPTH = 64
MAX_VALUES = 1 << 20
MAX_RANK = 64


def begins(start: bytes) -> bool:
    """True for the first bytes of a file: a map that is not empty, and a key that is text."""
    if 0x81 <= start[0] <= 0x8F:
        key = start[1:2]
    elif start[0] in (0xDE, 0xDF):
        key = start[3 if start[0] == 0xDE else 5 :][:1]
    else:
        return False
    return bool(key) and (0xA1 <= key[0] <= 0xBF or key[0] in (0xD9, 0xDA, 0xDB))


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """The arrays of a file by the names of their paths. Raises ModelError listing everything wrong with it."""
    file = MappedFile(path)
    reader = _Reader(file)
    try:
        content = reader.value(0)
        if reader.at != file.size:
            raise ModelError(f"{file.size - reader.at} bytes follow its end")
        if not isinstance(content, dict):
            raise ModelError("it is no table of arrays")
    except ModelError as error:
        problem = Problem("; ".join([f"byte {reader.at}: {error.summary}", *map(str, error.problems)]))
        raise ModelError(f"{path} is malformed", [problem]) from None
    checkpoint = Checkpoint(path=path, kind="flax")
    checkpoint.layout = "flax"
    return checkpoint_of(content, checkpoint)


def checkpoint_of(content: Mapping[Any, Any], checkpoint: Checkpoint) -> Checkpoint:
    """Fills a checkpoint with the arrays (Weight) of nested tables. Raises ModelError listing names that are given twice, and
    arrays in pieces that do not fit together."""
    problems: list[Problem] = []

    def enter(value: Any, keys: tuple[Any, ...]) -> None:
        name = dotted(keys)
        if isinstance(value, dict) and PIECES in value:
            try:
                value = _joined(value)
            except ModelError as error:
                problems.append(Problem(error.summary, tensor=name))
                return
        if isinstance(value, dict):
            for key, inner in value.items():
                enter(inner, (*keys, key))
        elif isinstance(value, list):
            for key, inner in enumerate(value):
                enter(inner, (*keys, key))
        elif not isinstance(value, Weight):
            checkpoint.ignored[name] = repr(value)[:80]
        elif name in checkpoint:
            problems.append(Problem("two arrays have this name", tensor=name))
        else:
            checkpoint[name] = value

    for key, value in content.items():
        if PARAMETERS not in content:
            enter(value, (key,))
        elif key == PARAMETERS:
            nested = isinstance(value, dict) and set(value) <= {PARAMETERS, *STATE} and PARAMETERS in value
            for name, inner in (value if nested else {PARAMETERS: value}).items():
                if name != PARAMETERS:
                    enter(inner, (name,))
                elif isinstance(inner, (dict, list)) and PIECES not in inner:
                    pairs = inner.items() if isinstance(inner, dict) else enumerate(inner)
                    for own, leaf in pairs:
                        enter(leaf, (own,))
                else:
                    enter(inner, (PARAMETERS,))
        elif key in TRAINING:
            checkpoint.ignored[str(key)] = "the state of a training"
        else:
            enter(value, (key,))
    if problems:
        raise ModelError(f"{checkpoint.path} is malformed", problems)
    return checkpoint


def dotted(keys: Sequence[Any]) -> str:
    """encoder.layers.0.kernel, from keys that may be Haiku's, such as lstm/~/linear."""
    return ".".join(map(str, keys)).replace("/~/", ".").replace("/", ".")


def _joined(value: Mapping[Any, Any]) -> Weight:
    """An array of pieces. Raises ModelError."""
    shape, pieces = ([part for _, part in _numbered(value.get(key))] for key in ("shape", "chunks"))
    if not pieces or not all(isinstance(p, Weight) and len(p.shape) == 1 for p in pieces) or len(shape) > MAX_RANK:
        raise ModelError("its pieces are no arrays of one axis")
    if not all(type(n) is int and n >= 0 for n in shape) or len({p.dtype for p in pieces}) != 1:
        raise ModelError("its shape is malformed, or its pieces differ in their element types")
    dtype = pieces[0].dtype
    if byte_size(dtype, tuple(shape), packed=False) != sum(p.nbytes for p in pieces):
        raise ModelError(f"its pieces do not have the elements of {list(shape)}")
    return array_weight(np.concatenate([p.array() for p in pieces]).reshape(shape))


def _numbered(table: Any) -> list[tuple[int, Any]]:
    if not isinstance(table, dict) or not all(str(key).isdecimal() for key in table):
        raise ModelError("its pieces are not numbered")
    return sorted((int(key), value) for key, value in table.items())


class _Reader:
    """A cursor over msgpack's bytes. Every length is compared with the bytes that are left, before anything is made."""

    def __init__(self, file: MappedFile, begin: int = 0, end: int | None = None) -> None:
        self.file, self.at, self.end = file, begin, file.size if end is None else end
        self.values = 0

    def take(self, count: int) -> memoryview:
        if count > self.end - self.at:
            raise ModelError(f"{count} bytes are announced and {self.end - self.at} left")
        view = self.file.view(self.at, count)
        self.at += count
        return view

    def number(self, form: str) -> Any:
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise ModelError(f"it has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise ModelError(f"it is nested deeper than {MAX_DEPTH}")
        code = self.take(1)[0]
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 256
        if code < 0x90:
            return self._table(code & 15, depth)
        if code < 0xA0:
            return self._list(code & 15, depth)
        if code < 0xC0:
            return self._text(code & 31)
        if code in _NUMBERS:
            return self.number(_NUMBERS[code])
        if code in _SIZED:
            kind, form = _SIZED[code]
            count = self.number(form)
            if kind == "ext":
                return self._extension(count, depth)
            return {"text": self._text, "bytes": lambda n: bytes(self.take(n))}[kind](count)
        if code in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        if 0xD4 <= code <= 0xD8:
            return self._extension(1 << (code - 0xD4), depth)
        if code in (0xDC, 0xDD):
            return self._list(self.number("H" if code == 0xDC else "I"), depth)
        if code in (0xDE, 0xDF):
            return self._table(self.number("H" if code == 0xDE else "I"), depth)
        raise ModelError(f"0x{code:02x} is no code of msgpack")

    def _text(self, count: int) -> str:
        try:
            return bytes(self.take(count)).decode()
        except UnicodeDecodeError:
            raise ModelError("a text is not UTF-8") from None

    def _list(self, count: int, depth: int) -> list[Any]:
        self._fits(count)
        return [self.value(depth + 1) for _ in range(count)]

    def _table(self, count: int, depth: int) -> dict[Any, Any]:
        self._fits(2 * count)
        found: dict[Any, Any] = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if not isinstance(key, (str, int)):
                raise ModelError(f"a key is no text: {type(key).__name__}")
            if key in found:
                raise ModelError(f"the key {key!r} is given twice")
            found[key] = self.value(depth + 1)
        return found

    def _fits(self, count: int) -> None:
        """Each value takes a byte at least."""
        if count > self.end - self.at:
            raise ModelError(f"{count} values are announced and {self.end - self.at} bytes left")

    def _extension(self, count: int, depth: int) -> Any:
        kind = self.number("b")
        end = self.at + count
        if end > self.end:
            raise ModelError(f"{count} bytes are announced and {self.end - self.at} left")
        if kind == COMPLEX:
            self.take(count)
            return "a complex number"
        if kind not in (ARRAY, SCALAR):
            raise ModelError(f"extension {kind} is not flax's")
        inner = _Reader(self.file, self.at, end)
        inner.values, self.at = self.values, end
        return inner._array(depth)

    def _array(self, depth: int) -> Weight:
        """The list [shape, element type, bytes], which is all up to the end."""
        if self.take(1)[0] != 0x93:
            raise ModelError("an array is not of three parts")
        shape, name = self.value(depth + 1), self.value(depth + 1)
        code = self.take(1)[0]
        lengths = {0xC4: "B", 0xC5: "H", 0xC6: "I", 0xD9: "B", 0xDA: "H", 0xDB: "I"}
        length = code & 31 if 0xA0 <= code < 0xC0 else self.number(lengths[code]) if code in lengths else -1
        if length < 0 or length != self.end - self.at:
            raise ModelError("an array's bytes are not up to its end")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > MAX_RANK:
            raise ModelError("an array's shape is malformed")
        name = name.decode("latin-1") if isinstance(name, bytes) else name
        if name not in DTYPES or name == "string" or DTYPES[name].kind == "list":
            raise ModelError(f"the element type {name!r} is not supported")
        size = byte_size(name, tuple(shape), packed=False)
        if size != length:
            raise ModelError(f"{name} of shape {shape} takes {size} bytes, not {length}")
        return Weight(name, tuple(shape), self.file.view(self.at, length), False, self.file, self.at)


_NUMBERS = {
    0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q",
}  # fmt: skip
"""msgpack's codes of numbers, with struct's letters."""

_SIZED = {
    0xC4: ("bytes", "B"), 0xC5: ("bytes", "H"), 0xC6: ("bytes", "I"), 0xC7: ("ext", "B"), 0xC8: ("ext", "H"),
    0xC9: ("ext", "I"), 0xD9: ("text", "B"), 0xDA: ("text", "H"), 0xDB: ("text", "I"),
}  # fmt: skip
"""msgpack's codes of values that their length precedes."""


# ---- writing ---------------------------------------------------------------------------------------------------------------
def write(path: str | os.PathLike[str], tensors: Mapping[str, Weight]) -> None:
    """Writes nested tables by the dots in names, as `flax.serialization.from_bytes` reads them: collections of state at the top,
    everything else under "params". Raises ModelError for names that are both an array and a table, and for strings and packed
    elements."""
    problems = [
        Problem(f"Flax has no {w.dtype}", tensor=n, hint="safetensors files have")
        for n, w in tensors.items()
        if w.dtype == "string" or (DTYPES[w.dtype].bits % 8 and w.dtype != "bool")
    ]
    problems += [Problem("its name is too long", tensor=n[:80]) for n in tensors if len(n.encode()) >= 1 << 16]
    whole: dict[str, Any] = {}
    for name, weight in tensors.items():
        keys = name.split(".") if name.split(".")[0] in STATE else [PARAMETERS, *name.split(".")]
        inner: Any = whole
        for key in keys[:-1]:
            inner = inner.setdefault(key, {}) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict) or keys[-1] in inner:
            problems.append(Problem("another tensor's name begins with this one's, or is it", tensor=name))
        else:
            inner[keys[-1]] = weight
    if problems:
        raise ModelError(f"{path} cannot be written", problems)
    with replacing(path) as file:
        _put(file, whole)


def _put(file: Any, value: Any) -> None:
    if isinstance(value, Weight):
        if value.nbytes > LARGEST:
            _put_pieces(file, value)
            return
        shape = bytes([0xDC]) + struct.pack(">H", len(value.shape)) + b"".join(map(_integer, value.shape))
        size = byte_size(value.dtype, value.shape, packed=False)
        head = b"\x93" + shape + _text(value.dtype) + b"\xc6" + struct.pack(">I", size)
        file.write(b"\xc9" + struct.pack(">Ib", len(head) + size, ARRAY) + head)
        write_weight(value, file)
    else:
        file.write(b"\xdf" + struct.pack(">I", len(value)))
        for key, inner in value.items():
            file.write(_text(key))
            _put(file, inner)


def _put_pieces(file: Any, value: Weight) -> None:
    flat = value.array().reshape(-1)
    count = max(1, LARGEST // flat.itemsize)
    pieces = {str(i): array_weight(flat[i * count : (i + 1) * count]) for i in range(-(-flat.size // count))}
    file.write(b"\xdf" + struct.pack(">I", 3) + _text(PIECES) + b"\xc3" + _text("shape"))
    file.write(b"\xdf" + struct.pack(">I", len(value.shape)))
    file.write(b"".join(_text(str(axis)) + _integer(size) for axis, size in enumerate(value.shape)))
    file.write(_text("chunks"))
    _put(file, pieces)


def _integer(value: int) -> bytes:
    return b"\xcf" + struct.pack(">Q", value)


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) < 32:
        return bytes([0xA0 | len(data)]) + data
    return b"\xda" + struct.pack(">H", len(data)) + data
