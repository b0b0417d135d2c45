"""Loads whose lanes are a fixed pattern of a short span of elements, such as the inputs of several groups of a convolution.

With four channels in each group, the lanes of a convolution's outputs read input channel `lane // 4 * 4 + c`. If vectors start at
multiples of four, that is the same pattern for every vector. The span is loaded as one or a few vectors and shuffled, which
takes a small part of a gather's time. A constant pattern lets LLVM choose shuffles within 128 bits, or broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from burn.codegen.host.emit import Function, Value, element_of, lanes_of, vector
from burn.dialect.dims import Dim, Expr, LoopVar, atoms, substitute
from burn.kernels.body import Fetched

MOST_VECTORS = 4
"""The most vectors in which a span is loaded. A lane may come from any of them, so each takes a shuffle."""


@dataclass(frozen=True)
class Span:
    """The elements of a vector's lanes: `offsets` by lane, behind the element of lane `first`, which has the lowest address."""

    first: int
    offsets: tuple[int, ...]

    @property
    def length(self) -> int:
        return max(self.offsets) + 1


@dataclass(frozen=True)
class Reached(Span):
    """A span that is read several times, each time further behind by up to `reach`."""

    reach: int = 0

    @property
    def length(self) -> int:
        return super().length + self.reach

    def lanes_from(self, code: Function, address: Value, element: str, shift: int, lanes: int) -> Value:
        """The lanes `shift` elements behind those of the span at an address. Equal loads for several shifts are shared by LLVM,
        but a broadcast is loaded by itself."""
        if not any(self.offsets):
            return load_span(code, code.gep(address, shift, element), element, Span(self.first, self.offsets), lanes)
        vectors = load_vectors(code, address, element, self.length, lanes)
        return shuffled(code, vectors, [offset + shift for offset in self.offsets], lanes, element)


@lru_cache(maxsize=1 << 12)
def span_of(offset: Dim, lane: LoopVar, step: int, active: int, lanes: int) -> Span | None:
    """The span of `active` lanes of `lanes` from a multiple of `step` on; None if it is not the same for every multiple, or
    longer than MOST_VECTORS vectors."""
    if isinstance(offset, int) or any(isinstance(atom, Fetched) for atom in atoms(offset)):
        return None
    multiple = Expr.of(LoopVar(f"{lane.name}/{step}", lane.extent)) * step
    start = substitute(offset, {lane: multiple})
    found: list[int] = []
    for index in range(active):
        behind = substitute(offset, {lane: multiple + index}) - start
        if not isinstance(behind, int):
            return None
        found.append(behind)
    lowest = min(found)
    if max(found) - lowest >= MOST_VECTORS * lanes:
        return None
    return Span(found.index(lowest), tuple(each - lowest for each in found))


def mask_of(code: Function, active: int, lanes: int) -> Value:
    """A constant mask with the first `active` lanes on."""
    bits = ", ".join("true" if index < active else "false" for index in range(lanes))
    return code.const(f"[{bits}]", vector(lanes, "i1"))


def load_span(code: Function, address: Value, element: str, span: Span, lanes: int) -> Value:
    """The lanes of a span that begins at an address. Only the span's elements are read; lanes past the pattern have any value."""
    return shuffled(code, load_vectors(code, address, element, span.length, lanes), span.offsets, lanes, element)


def load_vectors(code: Function, address: Value, element: str, length: int, lanes: int) -> list[Value]:
    """`length` elements in as many vectors as they need."""
    element = {"bf16": "i16", "i1": "i8"}.get(element, element)
    if length == 1:
        return [code.load(address, 0, element)]
    if length < lanes and length & (length - 1) == 0:
        return [code.load(address, 0, vector(length, element))]
    loaded: list[Value] = []
    for start in range(0, length, lanes):
        left = min(lanes, length - start)
        mask = mask_of(code, left, lanes) if left < lanes else None
        loaded.append(code.load(address, start, vector(lanes, element), mask))
    return loaded


def shuffled(code: Function, vectors: Sequence[Value], offsets: Sequence[int], lanes: int, element: str) -> Value:
    """A vector with the elements at `offsets` of consecutive vectors from `load_vectors`."""
    found = _picked(code, vectors, [*offsets, *(offsets[0],) * (lanes - len(offsets))])
    return (
        code.cmp("ne", found, code.const(0, found.type))
        if element == "i1"
        else code.cast("arith.bitcast", found, element)
    )


def _picked(code: Function, vectors: Sequence[Value], offsets: list[int]) -> Value:
    first, *others = vectors
    each, lanes = lanes_of(first.type), len(offsets)
    if each == 1:
        return code.splat(first, lanes)
    result = vector(lanes, element_of(first.type))

    def shuffle(a: Value, b: Value, picked: list[int]) -> Value:
        return code.pure(f"vector.shuffle {a}, {b} {picked} : {a.type}, {b.type}", result)

    if not others:
        return first if offsets == list(range(each)) else shuffle(first, first, offsets)
    used = sorted({offset // each for offset in offsets})
    if len(used) == 1:
        return shuffle(vectors[used[0]], vectors[used[0]], [offset % each for offset in offsets])
    here = {vector: number for number, vector in enumerate(used[:2])}
    two = [here.get(offset // each, 0) * each + offset % each for offset in offsets]
    found = shuffle(vectors[used[0]], vectors[used[1]], two)
    for number in used[2:]:
        found = shuffle(
            found, vectors[number], [each + o % each if o // each == number else i for i, o in enumerate(offsets)]
        )
    return found
