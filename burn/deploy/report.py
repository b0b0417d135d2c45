"""Cost of a model: multiply-adds by layer, bytes of weights, and for bare-metal targets flash and RAM."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from burn.runtime.artefact import Artefact


@dataclass(frozen=True)
class Layer:
    """One launch: the nodes of the model that it computes, and its multiply-adds, an expression for named
    sizes."""

    name: str
    nodes: tuple[str, ...]
    multiply_adds: int | str


@dataclass(frozen=True)
class Footprint:
    """Bytes on a bare-metal target. Flash holds the linked code, tables and weights; RAM the arena, inputs,
    outputs and writable data, without the stack."""

    flash: int
    ram: int


@dataclass(frozen=True)
class Report:
    layers: Sequence[Layer]
    weights: int
    footprint: Footprint | None = None

    @staticmethod
    def of(artefact: Artefact, weights: int, footprint: Footprint | None = None) -> Report:
        return Report([Layer(k.name, k.sources, _halved(k.flops)) for k in artefact.kernels], weights, footprint)

    @property
    def multiply_adds(self) -> int | str:
        """Of a whole run."""
        counts = [layer.multiply_adds for layer in self.layers if layer.multiply_adds != 0]
        total = sum(count for count in counts if isinstance(count, int))
        named = [count for count in counts if isinstance(count, str)]
        return " + ".join([*named, *([str(total)] if total else [])]) if named else total

    def described(self) -> dict[str, Any]:
        """For JSON."""
        made: dict[str, Any] = {
            "layers": [asdict(layer) for layer in self.layers],
            "multiply_adds": self.multiply_adds,
            "weights": self.weights,
        }
        return made | (asdict(self.footprint) if self.footprint else {})


_TERM = re.compile(r"(\d*[02468])((?:\*\w+)*)")


def _halved(flops: str) -> int | str:
    """Half of a number of operations, which may be a polynomial."""
    if flops.isdigit():
        return int(flops) // 2
    terms = [_TERM.fullmatch(term) for term in flops.split(" + ")]
    if not all(terms):
        return f"({flops}) / 2"
    return " + ".join(f"{int(term[1]) // 2}{term[2]}" for term in terms if term)


_HEADER, _SECTION = struct.Struct("<32xI10x2H"), struct.Struct("<10I")  # of an ELF file of 32 bits
_WRITE, _ALLOC, _NOBITS = 1, 2, 8


def footprint(image: Path, memory: int) -> Footprint:
    """Of a linked image, which works in so many bytes of its caller's."""
    data = image.read_bytes()
    at, size, count = _HEADER.unpack_from(data)
    flash = ram = 0
    for index in range(count):
        _, kind, flags, _, _, length, *_ = _SECTION.unpack_from(data, at + index * size)
        if flags & _ALLOC:
            flash += length if kind != _NOBITS else 0
            ram += length if flags & _WRITE else 0
    return Footprint(flash, ram + memory)
