"""A StableHLO module as it was read: functions, regions, ops, types and attributes. Nothing here is checked against an op's
meaning.

Attributes are Python values: `int`, `float`, `bool`, `str`, `list`, `dict`, and the classes of this file for the rest. A unit
attribute is `True`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class QuantizedType:
    """`!quant.uniform<i8:f32:1, {0.1:5, ...}>`. axis: None for one scale. block: True for one scale per block, which burn does
    not read. dtype: the name of the stored elements."""

    text: str
    dtype: str
    expressed: str
    axis: int | None
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    low: int | None = None
    high: int | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Ranked:
    """A tensor type. element: burn's name of an element type, MLIR's name of one that burn does not have, or a quantized type.
    shape: None for a size that the file leaves open. bounds: upper bounds of such sizes."""

    element: str | QuantizedType
    shape: tuple[int | None, ...]
    bounds: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.element}[{sizes}]"


@dataclass(frozen=True)
class TupleType:
    """`tuple<...>`."""

    members: tuple[Any, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.members))}>"


@dataclass(frozen=True)
class OtherType:
    """Any other type, as text: `!stablehlo.token`, `f32`, `tensor<*xf32>`, `memref<..>`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FunctionType:
    """The operands' and results' types of an op or a function."""

    inputs: tuple[Any, ...]
    results: tuple[Any, ...]


@dataclass(frozen=True)
class DialectAttribute:
    """`#stablehlo.gather<offset_dims = [0]>` has the name "stablehlo.gather" and the body "offset_dims = [0]"."""

    name: str
    body: str

    @property
    def word(self) -> str:
        """The value of an enumeration: "LT" of `#stablehlo<comparison_direction LT>`."""
        return self.body.split()[-1] if self.body.split() else ""


@dataclass(frozen=True)
class SymbolRef:
    """`@name`."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True)
class Elements:
    """`dense<...> : type`. array: all elements, or a single one that is repeated (`splat`)."""

    type: Ranked
    array: np.ndarray
    splat: bool

    def full(self) -> np.ndarray:
        """All elements. The caller has made sure that they are few."""
        shape = tuple(size or 0 for size in self.type.shape)
        return np.broadcast_to(self.array.reshape(()), shape) if self.splat else self.array.reshape(shape)


@dataclass(frozen=True)
class Location:
    """The origin of an op. names: of JAX operations and parameters, from the outside in. file, line: of the source; line 0 if it
    is not known."""

    names: tuple[str, ...] = ()
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.file.rsplit('/', 1)[-1]}:{self.line}" if self.file else ""
        name = "/".join(self.names)
        return f"{name} ({where})" if name and where else name or where


UNKNOWN = Location()


@dataclass
class Block:
    """Arguments (name, type, location) and ops."""

    arguments: list[tuple[str, Any, str]] = field(default_factory=list)
    ops: list[Operation] = field(default_factory=list)


@dataclass
class Operation:
    """One op in generic form. results: their names. location: the text of its location, which `Module.location` reads. number:
    the op's number in the order of the text."""

    name: str
    results: list[str]
    operands: list[str]
    attributes: dict[str, Any]
    regions: list[list[Block]]
    type: FunctionType
    location: str = ""
    number: int = 0

    def inside(self) -> Iterator[Operation]:
        """The ops in its regions, at any depth."""
        pending = [self]
        while pending:
            for region in pending.pop().regions:
                for block in region:
                    yield from block.ops
                    pending += [op for op in block.ops if op.regions]


@dataclass
class Module:
    """The functions of a file by name, in the file's order. locations: the aliases of locations, still as text."""

    functions: dict[str, Operation]
    locations: dict[str, str]
    attributes: dict[str, Any] = field(default_factory=dict)
