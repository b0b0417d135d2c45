"""A program's constants as one byte sequence with 64-byte alignment, in the binary or in a safetensors file beside it.

In the file every constant is a tensor, named by its number. Byte tensors such as "padding.3" fill up to the next
multiple of 64, because the format allows no gaps. Strings are byte tensors in the format of runtime/strings.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burn.runtime.artefact import Buffer, Constant

ALIGNMENT = 64
_NAMES = {
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "I"), ("u", "U")) for bits in (8, 16, 32, 64)},
    "bfloat16": "BF16",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
"""Element types as safetensors calls them; a tensor of another type is written as bytes."""


@dataclass(frozen=True)
class Stored:
    """Where a constant lies; `strings` says how many, where it is a tensor of them."""

    offset: int
    bytes: int
    strings: int | None


@dataclass(frozen=True)
class Weights:
    """All constants: `pieces` one after another are the bytes."""

    pieces: Sequence[Buffer]
    entries: Sequence[Stored]
    bytes: int

    def joined(self) -> bytes:
        return b"".join(bytes(piece) for piece in self.pieces)


def layout(constants: Sequence[Constant], *, as_file: bool) -> Weights:
    """The constants as they are embedded, or as a safetensors file."""
    pieces: list[Buffer] = []
    offsets: list[int] = []
    entries: dict[str, dict[str, object]] = {}
    at = 0
    for number, constant in enumerate(constants):
        size = constant.bytes
        offsets.append(at)
        entries[str(number)] = _entry(constant, at)
        pieces.append(constant.data)
        if padding := -size % ALIGNMENT:
            pieces.append(bytes(padding))
            entries[f"padding.{number}"] = {
                "dtype": "U8",
                "shape": [padding],
                "data_offsets": [at + size, at + size + padding],
            }
        at += size + padding
    begin = 0
    if as_file and constants:
        header = json.dumps(entries, separators=(",", ":")).encode()
        header += b" " * (-(len(header) + 8) % ALIGNMENT)
        pieces.insert(0, len(header).to_bytes(8, "little") + header)
        begin = len(header) + 8
    stored = [
        Stored(begin + offset, constant.bytes, math.prod(constant.shape) if constant.dtype == "string" else None)
        for offset, constant in zip(offsets, constants, strict=True)
    ]
    return Weights(pieces, stored, begin + at)


def _entry(constant: Constant, at: int) -> dict[str, object]:
    known = _NAMES.get(constant.dtype)
    shape = list(constant.shape) if known else [constant.bytes]
    return {"dtype": known or "U8", "shape": shape, "data_offsets": [at, at + constant.bytes]}


def chunks(weights: Weights) -> Iterator[memoryview]:
    for piece in weights.pieces:
        yield memoryview(piece).cast("B")
