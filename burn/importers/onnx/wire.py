"""Takes the large tensors out of a serialised ONNX model before it is parsed.

The `onnx` package copies every tensor's bytes when it parses a model, and cannot parse more than 2 GB. `strip_tensors`
walks the protobuf wire format (https://protobuf.dev/programming-guides/encoding) down to the large tensor payloads. It
returns the same model with each payload replaced by a note of its offset in the original bytes. Only length prefixes
on the way to a payload are read. Messages below `THRESHOLD` bytes are passed on whole and checked by the parser.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.errors import ModelError

THRESHOLD = 1024  # bytes: below this a copy is cheaper than a look
MAX_DEPTH = 100  # the protobuf parser's own limit

# Message -> the fields that can hold a tensor, and the message that each is.
_NESTED: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 20: "TrainingInfo", 25: "Function"},
    "TrainingInfo": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {},
}
# Fields of a tensor whose wire bytes are the elements' own bytes: raw_data, and packed fixed-width floats.
_PAYLOADS = {9: "raw_data", 4: "float_data", 10: "double_data"}
_EXTERNAL_DATA = 13


@dataclass(frozen=True)
class Span:
    """Bytes of the model that were the content of a tensor's field."""

    field: str
    offset: int
    length: int

    @staticmethod
    def parse(note: str) -> Span:
        field, offset, length = note.split()
        return Span(field, int(offset), int(length))


def strip_tensors(data: memoryview, token: str) -> bytes:
    """The serialised model without large tensor payloads.

    Each payload leaves an entry `token -> "field offset length"` in its tensor's `external_data`. Use a random token, so that no
    file can contain such an entry itself. Raises ModelError if the bytes are not protobuf.
    """
    return b"".join(_Stripper(data, token.encode()).message("Model", 0, len(data), 0))


class _Stripper:
    def __init__(self, data: memoryview, token: bytes) -> None:
        self.data = data
        self.token = token

    def message(self, kind: str, start: int, end: int, depth: int) -> list[bytes | memoryview]:
        """The pieces of the message in [start, end) after stripping."""
        if depth > MAX_DEPTH:
            raise _malformed(start, f"messages nest deeper than {MAX_DEPTH}")
        data, nested = self.data, _NESTED[kind]
        pieces: list[bytes | memoryview] = []
        kept = position = start  # [kept, position) is passed on as it is
        while position < end:
            field_start = position
            tag, position = self.varint(position, end)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                raise _malformed(field_start, "a field has number 0")
            if wire == 2:
                length, position = self.varint(position, end)
                stop = position + length
                if stop > end:
                    raise _malformed(field_start, f"a field of {length} bytes goes beyond the end of its message")
                if length >= THRESHOLD and number in nested:
                    inner = self.message(nested[number], position, stop, depth + 1)
                    pieces += [data[kept:field_start], _varint(tag), _varint(sum(map(len, inner))), *inner]
                    kept = stop
                elif length >= THRESHOLD and kind == "Tensor" and number in _PAYLOADS:
                    note = f"{_PAYLOADS[number]} {position} {length}".encode()
                    pieces += [data[kept:field_start], self.entry(note)]
                    kept = stop
                position = stop
            elif wire == 0:
                position = self.varint(position, end)[1]
            elif wire in (1, 5):
                position += 8 if wire == 1 else 4
                if position > end:
                    raise _malformed(field_start, "a fixed-width field goes beyond the end of its message")
            else:
                raise _malformed(field_start, f"wire type {wire} is not valid in an ONNX model")
        pieces.append(data[kept:end])
        return pieces

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """The number at a position and the position after it."""
        value = 0
        for shift in range(0, 70, 7):
            if position >= end:
                raise _malformed(position, "the bytes end within a number")
            byte = self.data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
        raise _malformed(position, "a number has more than ten bytes")

    def entry(self, note: bytes) -> bytes:
        """An external_data field that holds one StringStringEntryProto."""
        content = b"\x0a" + _varint(len(self.token)) + self.token + b"\x12" + _varint(len(note)) + note
        return _varint(_EXTERNAL_DATA << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _malformed(position: int, message: str) -> ModelError:
    return ModelError("not an ONNX model", [f"malformed protobuf at byte {position}: {message}"])
