"""The importer's values for sequences and optionals.

A sequence of known length is a `TensorList`, a Python list of values. An optional is its element or `Nothing`. Neither leaves
anything in the program. Inputs and results that depend on runtime data are a
`RunList`: a list of the dialect (burn/dialect/sequence.py). `run_list` converts the others to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import onnx

from burn.dialect import ops
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import Container, type_of
from burn.importers.onnx.tensors import ELEMENT_TYPES

if TYPE_CHECKING:
    from burn.importers.onnx.node import Node


@dataclass(frozen=True)
class TensorList:
    """A sequence. Elements are values, or sequences themselves; `dtype` is that of the tensors where there are none."""

    elements: tuple[Any, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Nothing:
    """An optional without an element; `container` is its type, if the model declares it."""

    container: Container | None = None


@dataclass(frozen=True)
class RunList:
    """A sequence or an optional that the program has when it runs. While it is `empty`, its tensors' shape is not known."""

    value: ir.Value
    container: Container
    empty: bool = False

    @property
    def is_optional(self) -> bool:
        return self.container.kinds[0] == "optional"


@dataclass(frozen=True)
class Maps:
    """A sequence of maps, one for each row of a tensor [n, keys], with the same keys in all (ZipMap): an output."""

    value: ir.Value
    keys: tuple[int, ...] | tuple[str, ...]


def is_container(value: Any) -> bool:
    return isinstance(value, (TensorList, Nothing, RunList))


def flatten(value: Any) -> tuple[list[ir.Value], Callable[[list[ir.Value]], Any], Any]:
    """Returns a value's tensors, a function that rebuilds the value from others, and a description of its structure."""
    if isinstance(value, TensorList):
        parts = [flatten(element) for element in value.elements]
        sizes = [len(leaves) for leaves, _, _ in parts]

        def rebuild(leaves: list[ir.Value]) -> TensorList:
            elements, start = [], 0
            for (_, build, _), size in zip(parts, sizes, strict=True):
                elements.append(build(leaves[start : start + size]))
                start += size
            return replace(value, elements=tuple(elements))

        return [x for leaves, _, _ in parts for x in leaves], rebuild, ["sequence", *(shape for _, _, shape in parts)]
    if isinstance(value, Nothing):
        return [], lambda leaves: value, "nothing"
    if isinstance(value, RunList):
        return [value.value], lambda leaves: replace(value, value=leaves[0]), value.container
    return [value], lambda leaves: leaves[0], "tensor"


# ---- what is known of them -----------------------------------------------------------------------------------------------
def any_size(axis: int) -> Dim:
    """The size of an axis of a list's tensors that is not known."""
    return symbol(f"size_{axis}")


def container_of(type_: onnx.TypeProto) -> Container | None:
    """The type of a sequence or an optional of tensors, from an ONNX type; None for other types."""
    kinds = []
    while (kind := type_.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kinds.append(kind.removesuffix("_type"))
        type_ = getattr(type_, kind).elem_type
    tensor = type_.tensor_type
    if not kinds or kind != "tensor_type" or tensor.elem_type not in ELEMENT_TYPES:
        return None
    shape = None
    if tensor.HasField("shape"):
        sizes = enumerate(tensor.shape.dim)
        shape = tuple(d.dim_value if d.HasField("dim_value") else any_size(i) for i, d in sizes)
    return Container(tuple(kinds), ELEMENT_TYPES[tensor.elem_type], shape)


def merged(a: Container, b: Container) -> Container | None:
    """The common type of two containers; None if there is none."""
    if a.kinds != b.kinds or a.dtype != b.dtype:
        return None
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return replace(a, shape=None)
    pairs = enumerate(zip(a.shape, b.shape, strict=True))
    return replace(a, shape=tuple(x if x == y and isinstance(x, int) else any_size(i) for i, (x, y) in pairs))


def around(kind: str, element: ir.Value | RunList) -> Container:
    """The type of a sequence or an optional of one element."""
    if isinstance(element, RunList):
        return replace(element.container, kinds=(kind, *element.container.kinds))
    type_ = type_of(element)
    shape = tuple(d if isinstance(d, int) else any_size(i) for i, d in enumerate(type_.shape))
    return Container((kind,), type_.dtype, shape)


# ---- making them -----------------------------------------------------------------------------------------------------------
def inserted(items: RunList, element: ir.Value | RunList, position: ir.Value | None = None) -> RunList | None:
    """The list with an element more; None where it does not fit."""
    own = around(items.container.kinds[0], element)
    known = own if items.empty and own.dtype == items.container.dtype else merged(items.container, own)
    if known is None:
        return None
    value = ops.list_insert(items.value, element.value if isinstance(element, RunList) else element, position)
    return RunList(value, known)


def run_list(value: Any, wanted: Container | None = None) -> RunList | None:
    """Builds a sequence or an optional (or a tensor, for an optional of it) as a list of the program, at the insertion point.

    Returns None if its elements are of several kinds. `wanted`: the type that it must have, if known."""
    kinds = wanted.kinds if wanted is not None else ()
    inner = replace(wanted, kinds=kinds[1:]) if wanted is not None and len(kinds) > 1 else None
    is_optional = isinstance(value, Nothing) or (isinstance(value, RunList) and value.is_optional)
    if kinds[:1] == ("optional",) and not is_optional:
        return _listed([value if inner is None else run_list(value, inner)], "optional", wanted)
    if isinstance(value, RunList):
        return value
    if isinstance(value, Nothing):
        container = wanted or value.container
        return None if container is None else RunList(ops.list_empty(), container, True)
    if not isinstance(value, TensorList):
        return None
    elements = [e if isinstance(e, ir.Value) else run_list(e, inner) for e in value.elements]
    return _listed(elements, "sequence", wanted or Container(("sequence",), value.dtype, ()))


def _listed(elements: list[Any], kind: str, wanted: Container | None) -> RunList | None:
    if any(element is None for element in elements):
        return None
    container = around(kind, elements[0]) if elements else wanted
    items = None if container is None else RunList(ops.list_empty(), container, True)
    for element in elements:
        items = None if items is None else inserted(items, element)
    return items


def to_list(node: Node, value: Any, wanted: Container | None = None) -> RunList:
    """A sequence as a list of the program. Fails if its elements have no common type."""
    items = run_list(value, wanted)
    if items is None:
        node.fail("a sequence that is known only when the program runs must have elements of one type")
    return items
