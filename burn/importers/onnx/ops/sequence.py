"""Sequences and optionals. They exist only while a model is imported: a `TensorList` is a Python list of values, an
optional is its element or `Nothing`. So a sequence's length is known, and positions must be, unless all elements are
alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.contents import Content
from burn.importers.onnx.node import Node, onnx_op

MAX_LENGTH = 4096
"""Every element is a value of the program: a longer sequence is not something to write out."""


@dataclass(frozen=True)
class TensorList:
    """A sequence. Elements are values, or sequences themselves."""

    elements: tuple[Any, ...]


@dataclass(frozen=True)
class Nothing:
    """An optional without an element."""


def flatten(value: Any) -> tuple[list[ir.Value], Callable[[list[ir.Value]], Any], Any]:
    """A value's tensors, how to put others in their places, and a description of its structure."""
    if isinstance(value, TensorList):
        parts = [flatten(element) for element in value.elements]
        sizes = [len(leaves) for leaves, _, _ in parts]

        def rebuild(leaves: list[ir.Value]) -> TensorList:
            elements, start = [], 0
            for (_, build, _), size in zip(parts, sizes, strict=True):
                elements.append(build(leaves[start : start + size]))
                start += size
            return TensorList(tuple(elements))

        return [x for leaves, _, _ in parts for x in leaves], rebuild, ["sequence", *(shape for _, _, shape in parts)]
    if isinstance(value, Nothing):
        return [], lambda leaves: value, "nothing"
    return [value], lambda leaves: leaves[0], "tensor"


def sequence(node: Node, index: int = 0) -> TensorList:
    value = node.inputs[index] if index < len(node.inputs) else None
    if not isinstance(value, TensorList):
        node.fail(f"operand {index} is not a sequence")
    return value


def position(node: Node, index: int, length: int, inclusive: bool) -> int | None:
    """A known position in a sequence of `length`; None when it comes from data."""
    at = node.scalar(index)
    if not isinstance(at, int):
        return None
    last = length if inclusive else length - 1
    if not -length <= at <= last:
        node.fail(f"position {at} is out of range for a sequence of {length}")
    return at + length if at < 0 else at


@onnx_op("SequenceEmpty")
def sequence_empty(node: Node) -> TensorList:
    return TensorList(())


@onnx_op("SequenceConstruct")
def sequence_construct(node: Node) -> TensorList:
    return TensorList(tuple(node.tensors()))


@onnx_op("SequenceLength")
def sequence_length(node: Node) -> ir.Value:
    return node.known(Content.of("int64", len(sequence(node).elements)))


@onnx_op("SequenceAt")
def sequence_at(node: Node) -> Any:
    elements = sequence(node).elements
    if not elements:
        node.fail("an empty sequence has no elements")
    at = position(node, 1, len(elements), inclusive=False)
    if at is not None:
        return elements[at]
    types_ = {type_of(e) for e in elements if isinstance(e, ir.Value)}
    if len(types_) != 1 or not all(isinstance(e, ir.Value) for e in elements):
        node.fail("the position must be a constant, since the elements differ in shape")
    (type_,) = types_
    rows = ops.concat([reshape(e, (1, *type_.shape)) for e in elements], axis=0)
    return ops.gather(rows, reshape(node.required(1), ()), axis=0)


@onnx_op("SequenceInsert")
def sequence_insert(node: Node) -> TensorList:
    elements = sequence(node).elements
    at = position(node, 2, len(elements), inclusive=True) if node.has_input(2) else len(elements)
    if at is None:
        node.fail("the position must be a constant")
    return TensorList((*elements[:at], node.inputs[1], *elements[at:]))


@onnx_op("SequenceErase")
def sequence_erase(node: Node) -> TensorList:
    elements = sequence(node).elements
    at = position(node, 1, len(elements), inclusive=False) if node.has_input(1) else len(elements) - 1
    if at is None or at < 0:
        node.fail("the position must be a constant, and the sequence must not be empty")
    return TensorList((*elements[:at], *elements[at + 1 :]))


@onnx_op("SplitToSequence")
def split_to_sequence(node: Node) -> TensorList:
    x, type_ = node.required(0), node.type(0)
    axis = node.axis(node.int("axis", 0), type_.rank)
    size = type_.shape[axis]
    sizes = _split_sizes(node, size)
    keep = node.has_input(1) or node.int("keepdims", 1) == 1
    elements, start = [], 0
    for length in sizes:
        starts = tuple(start if i == axis else 0 for i in range(type_.rank))
        shape = tuple(length if i == axis else d for i, d in enumerate(type_.shape))
        part = ops.slice(x, starts=starts, sizes=shape, steps=(1,) * type_.rank)
        elements.append(part if keep else reshape(part, (*shape[:axis], *shape[axis + 1 :])))
        start = start + length
    return TensorList(tuple(elements))


def _split_sizes(node: Node, size: Dim) -> list[Dim]:
    if not node.has_input(1):
        if not isinstance(size, int):
            node.fail(f"the axis has {size} elements, and a sequence's length must be known")
        return [1] * _length(node, size)
    if node.type(1).rank:
        return list(node.read_dims(1))
    (length,) = node.dims(1) or (None,)
    if length is None:
        node.fail("the size of the parts (operand 1) must be known: so must a sequence's length")
    if not isinstance(size, int) or not isinstance(length, int) or length < 1:
        node.fail(f"parts of {length} out of {size} elements: a sequence's length must be known")
    _length(node, -(-size // length))
    return [min(length, size - start) for start in range(0, size, length)]


def _length(node: Node, length: int) -> int:
    if length > MAX_LENGTH:
        node.fail(f"a sequence of {length} elements is longer than {MAX_LENGTH}")
    return length


@onnx_op("ConcatFromSequence")
def concat_from_sequence(node: Node) -> ir.Value:
    elements = list(sequence(node).elements)
    if not elements:
        node.fail("an empty sequence has nothing to join")
    new = node.int("new_axis", 0) == 1
    axis = node.axis(node.int("axis"), type_of(elements[0]).rank + new)
    if new:
        shapes = [type_of(e).shape for e in elements]
        elements = [reshape(e, (*s[:axis], 1, *s[axis:])) for e, s in zip(elements, shapes, strict=True)]
    return ops.concat(elements, axis=axis)


@onnx_op("SequenceMap")
def sequence_map(node: Node) -> list[TensorList]:
    """The body once for every element of the first sequence; other operands are sequences as long, or tensors."""
    count = len(sequence(node).elements)
    body = node.graph("body")
    columns: list[list[Any]] = [[] for _ in body.output]
    for index in range(count):
        arguments = []
        for value in node.inputs:
            if isinstance(value, TensorList) and len(value.elements) != count:
                node.fail(f"sequences of {count} and {len(value.elements)} elements cannot be walked together")
            arguments.append(value.elements[index] if isinstance(value, TensorList) else value)
        for column, value in zip(columns, node.build_subgraph(body, arguments), strict=True):
            column.append(value)
    return [TensorList(tuple(column)) for column in columns]


@onnx_op("Optional")
def optional(node: Node) -> Any:
    return node.inputs[0] if node.inputs and node.inputs[0] is not None else Nothing()


@onnx_op("OptionalHasElement")
def optional_has_element(node: Node) -> ir.Value:
    present = bool(node.inputs) and node.inputs[0] is not None and not isinstance(node.inputs[0], Nothing)
    return node.known(Content.of("bool", present))


@onnx_op("OptionalGetElement")
def optional_get_element(node: Node) -> Any:
    if isinstance(node.inputs[0], Nothing):
        node.fail("the optional has no element")
    return node.inputs[0]
