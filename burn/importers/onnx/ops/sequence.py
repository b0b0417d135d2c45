"""Operators on sequences and optionals: of those whose length is known while a model is imported nothing is left, the others
become lists of the program (importers/onnx/lists.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onnx

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import ir
from burn.dialect.sequence import ANY
from burn.dialect.types import Container, type_of
from burn.importers.onnx.contents import Content
from burn.importers.onnx.lists import Nothing, RunList, TensorList, any_size, container_of, inserted, to_list
from burn.importers.onnx.node import Node, onnx_op

MAX_LENGTH = 4096
"""Every element of a `TensorList` is a value of the program: a longer sequence is not something to write out."""

SHAPE_HINT = "give the elements a shape in the model"


def sequence(node: Node, index: int = 0) -> TensorList | RunList:
    value = node.inputs[index] if index < len(node.inputs) else None
    if not isinstance(value, (TensorList, RunList)):
        node.fail(f"operand {index} is not a sequence")
    return value


def known_position(node: Node, index: int, length: int, inclusive: bool) -> int | None:
    """A known position in a sequence of `length`; None when it comes from data."""
    at = node.scalar(index)
    if not isinstance(at, int):
        return None
    last = length if inclusive else length - 1
    if not -length <= at <= last:
        node.fail(f"position {at} is out of range for a sequence of {length}")
    return at + length if at < 0 else at


def position(node: Node, index: int) -> ir.Value | None:
    """An operand as a position in a list."""
    return reshape(convert(node.required(index), "int64"), ()) if node.has_input(index) else None


def at(node: Node, items: RunList, position: ir.Value | None) -> Any:
    """The element at a position; an optional's element without one."""
    container = items.container
    if len(container.kinds) > 1:
        inner = replace(container, kinds=container.kinds[1:])
        return RunList(ops.list_at(items.value, position, dtype="list", sizes=()), inner)
    return ops.list_at(items.value, position, **found(node, container.dtype, _shape(node, items)))


def found(node: Node, dtype: str, shape: tuple[Dim, ...]) -> dict[str, Any]:
    """The attributes of an op that finds a tensor; a symbolic size stands for any."""
    symbols = tuple(node.fresh(f"{node.op.lower()}_size") for d in shape if not isinstance(d, int))
    return {"dtype": dtype, "sizes": tuple(d if isinstance(d, int) else ANY for d in shape), "symbols": symbols}


def _shape(node: Node, items: RunList) -> tuple[Dim, ...]:
    if items.container.shape is None or items.empty:
        node.fail("the rank of a sequence's or an optional's elements is not known", hint=SHAPE_HINT)
    return items.container.shape


# ---- sequences -----------------------------------------------------------------------------------------------------------
@onnx_op("SequenceEmpty")
def sequence_empty(node: Node) -> TensorList:
    return TensorList((), node.dtype("dtype", "float32"))


@onnx_op("SequenceConstruct")
def sequence_construct(node: Node) -> TensorList:
    return TensorList(tuple(node.tensors()), node.type(0).dtype)


@onnx_op("SequenceLength")
def sequence_length(node: Node) -> ir.Value:
    items = sequence(node)
    if isinstance(items, RunList):
        return ops.list_length(items.value)
    return node.known(Content.of("int64", len(items.elements)))


@onnx_op("SequenceAt")
def sequence_at(node: Node) -> Any:
    items = sequence(node)
    if isinstance(items, RunList):
        return at(node, items, position(node, 1))
    elements = items.elements
    if not elements:
        node.fail("an empty sequence has no elements")
    index = known_position(node, 1, len(elements), inclusive=False)
    if index is not None:
        return elements[index]
    types_ = {type_of(e) for e in elements if isinstance(e, ir.Value)}
    if len(types_) != 1 or not all(isinstance(e, ir.Value) for e in elements):
        return at(node, to_list(node, items), position(node, 1))
    (type_,) = types_
    rows = ops.concat([reshape(e, (1, *type_.shape)) for e in elements], axis=0)
    return ops.gather(rows, reshape(node.required(1), ()), axis=0)


@onnx_op("SequenceInsert")
def sequence_insert(node: Node) -> TensorList | RunList:
    items, element = sequence(node), node.inputs[1]
    if isinstance(items, TensorList):
        elements = items.elements
        index = known_position(node, 2, len(elements), inclusive=True) if node.has_input(2) else len(elements)
        if index is not None:
            return replace(items, elements=(*elements[:index], element, *elements[index:]))
    return appended(node, to_list(node, items), element, position(node, 2))


def appended(node: Node, items: RunList, element: Any, position: ir.Value | None = None) -> RunList:
    made = element if isinstance(element, ir.Value) else to_list(node, element)
    result = inserted(items, made, position)
    if result is None:
        what = type_of(made) if isinstance(made, ir.Value) else made.container
        node.fail(f"an element of type {what} does not fit into a {items.container}")
    return result


@onnx_op("SequenceErase")
def sequence_erase(node: Node) -> TensorList | RunList:
    items = sequence(node)
    if isinstance(items, TensorList):
        elements = items.elements
        index = known_position(node, 1, len(elements), inclusive=False) if node.has_input(1) else len(elements) - 1
        if index is not None and index < 0:
            node.fail("an empty sequence has no elements")
        if index is not None:
            return replace(items, elements=(*elements[:index], *elements[index + 1 :]))
    items = to_list(node, items)
    return replace(items, value=ops.list_erase(items.value, position(node, 1)))


@onnx_op("SplitToSequence")
def split_to_sequence(node: Node) -> TensorList | RunList:
    x, type_ = node.required(0), node.type(0)
    axis = node.axis(node.int("axis", 0), type_.rank)
    keep = node.has_input(1) or node.int("keepdims", 1) == 1
    sizes = _split_sizes(node, type_.shape[axis])
    if node.has_input(1):
        node.no_effect("keepdims", because="the standard says so where `split` is given")
    if sizes is None:
        parts = convert(node.required(1), "int64") if node.has_input(1) else None
        shape = [d if isinstance(d, int) else any_size(i) for i, d in enumerate(type_.shape)]
        shape[axis : axis + 1] = [any_size(axis)] if parts is not None else [1] * keep
        container = Container(("sequence",), type_.dtype, tuple(shape))
        return RunList(ops.list_split(x, parts, axis=axis, keep=keep), container)
    elements, start = [], 0
    for length in sizes:
        starts = tuple(start if i == axis else 0 for i in range(type_.rank))
        shape = tuple(length if i == axis else d for i, d in enumerate(type_.shape))
        part = ops.slice(x, starts=starts, sizes=shape, steps=(1,) * type_.rank)
        elements.append(part if keep else reshape(part, (*shape[:axis], *shape[axis + 1 :])))
        start = start + length
    return TensorList(tuple(elements), type_.dtype)


def _split_sizes(node: Node, size: Dim) -> list[Dim] | None:
    """The parts' sizes, where it is known how many there are."""
    if not node.has_input(1):
        ones: list[Dim] = [1]
        return ones * size if isinstance(size, int) and size <= MAX_LENGTH else None
    known = node.dims(1)
    if node.type(1).rank:
        count = node.type(1).shape[0]
        return list(known or node.read_dims(1)) if isinstance(count, int) and (known or count <= 64) else None
    length = known[0] if known else None
    if not isinstance(size, int) or not isinstance(length, int):
        return None
    if length < 1:
        node.fail(f"parts of {length} elements", "split")
    if size > length * MAX_LENGTH:
        return None
    return [min(length, size - start) for start in range(0, size, length)]


@onnx_op("ConcatFromSequence")
def concat_from_sequence(node: Node) -> ir.Value:
    items, new = sequence(node), node.int("new_axis", 0) == 1
    if isinstance(items, RunList):
        shape = _shape(node, items)
        axis = node.axis(node.int("axis"), len(shape) + new)
        joined = (*shape[:axis], symbol("joined"), *shape[axis + (not new) :])
        return ops.list_concat(items.value, axis=axis, stack=new, **found(node, items.container.dtype, joined))
    elements = list(items.elements)
    if not elements:
        node.fail("an empty sequence has nothing to join")
    axis = node.axis(node.int("axis"), type_of(elements[0]).rank + new)
    if new:
        shapes = [type_of(e).shape for e in elements]
        elements = [reshape(e, (*s[:axis], 1, *s[axis:])) for e, s in zip(elements, shapes, strict=True)]
    return ops.concat(elements, axis=axis)


# ---- optionals -----------------------------------------------------------------------------------------------------------
@onnx_op("Optional")
def optional(node: Node) -> Any:
    type_ = node.attribute("type")
    if node.inputs and node.inputs[0] is not None:
        return node.inputs[0]
    if type_ is None:
        return Nothing()
    return Nothing(container_of(onnx.TypeProto(optional_type=onnx.TypeProto.Optional(elem_type=type_.tp))))


def _run_optional(node: Node) -> RunList | None:
    value = node.inputs[0] if node.inputs else None
    return value if isinstance(value, RunList) and value.is_optional else None


@onnx_op("OptionalHasElement")
def optional_has_element(node: Node) -> ir.Value:
    if (value := _run_optional(node)) is not None:
        return ops.gt(ops.list_length(value.value), number(0, "int64"))
    present = bool(node.inputs) and node.inputs[0] is not None and not isinstance(node.inputs[0], Nothing)
    return node.known(Content.of("bool", present))


@onnx_op("OptionalGetElement")
def optional_get_element(node: Node) -> Any:
    if (value := _run_optional(node)) is not None:
        return at(node, value, None)
    if isinstance(node.inputs[0], Nothing):
        node.fail("the optional has no element")
    return node.inputs[0]
