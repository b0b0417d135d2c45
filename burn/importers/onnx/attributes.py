"""A node's attributes by name and type, and the problems that name the node. `Node` (node.py) is the one user."""

from __future__ import annotations

from ctypes import c_float
from typing import Any, NoReturn, TypeAlias, TypeVar

import onnx
from onnx import AttributeProto

from burn.dialect.weights import Weight
from burn.errors import ModelError, Problem
from burn.importers.onnx.reads import Reads
from burn.importers.onnx.tensors import ELEMENT_TYPES, TensorReader, element_name

T = TypeVar("T")
REQUIRED: Any = object()  # a default that says: the attribute must be there

Int: TypeAlias = int  # the class below has methods of these names
Float: TypeAlias = float


class Attributes:
    """Getters that check the attribute's type. Without a default the attribute must be there."""

    proto: onnx.NodeProto
    domain: str
    opset: Int
    name: str
    reads: Reads

    @property
    def op(self) -> str:
        return self.proto.op_type

    @property
    def written_opset(self) -> Int:
        """The opset that the file names for the node's domain."""
        return self.opset

    @property
    def tensors_of_file(self) -> TensorReader:
        raise NotImplementedError

    def problem(self, message: str, attribute: str = "", hint: str = "") -> Problem:
        return Problem(message, self.name, self.op, self.domain, self.written_opset, attribute, hint)

    def located(self, problem: Problem) -> Problem:
        return problem if problem.op == self.op else self.problem(problem.message, problem.attribute, problem.hint)

    def fail(self, message: str, attribute: str = "", hint: str = "") -> NoReturn:
        """Raises a ModelError that names this node."""
        raise ModelError("the model cannot be imported", [self.problem(message, attribute, hint)])

    def has(self, name: str) -> bool:
        return any(a.name == name for a in self.proto.attribute)

    def no_effect(self, *names: str | Int, because: str) -> None:
        """Marks attributes (by name) and operands (by index) as read that do not change what this node computes.

        because: the reason, for the reader of the builder."""
        assert because
        for name in names:
            if isinstance(name, str):
                self.reads.attributes.add(name)
            else:
                self.reads.inputs.add(name)

    def attribute(self, name: str) -> AttributeProto | None:
        """The attribute as the file has it, of any type; None when it is left out."""
        self.reads.attributes.add(name)
        return next((a for a in self.proto.attribute if a.name == name), None)

    def _get(self, name: str, kind: Any, field: str, default: Any) -> Any:
        attribute = self.attribute(name)
        if attribute is not None:
            if attribute.type != kind:
                names = AttributeProto.AttributeType
                found = names.Name(attribute.type) if attribute.type in names.values() else str(attribute.type)
                self.fail(f"must be {names.Name(kind)}, not {found}", name)
            return getattr(attribute, field)
        if default is REQUIRED:
            self.fail("is missing", name)
        return default

    def int(self, name: str, default: T = REQUIRED) -> Int | T:
        return self._get(name, AttributeProto.INT, "i", default)

    def float(self, name: str, default: T = REQUIRED) -> Float | T:
        """A float32, the default too: in float64 the difference is seen."""
        value = self._get(name, AttributeProto.FLOAT, "f", default)
        return c_float(value).value if isinstance(value, Float) else value

    def string(self, name: str, default: T = REQUIRED) -> str | T:
        value = self._get(name, AttributeProto.STRING, "s", default)
        return self._text(value, name) if isinstance(value, bytes) else value

    def ints(self, name: str, default: T = REQUIRED) -> tuple[Int, ...] | T:
        value = self._get(name, AttributeProto.INTS, "ints", default)
        return value if value is default else tuple(value)

    def floats(self, name: str, default: T = REQUIRED) -> tuple[Float, ...] | T:
        value = self._get(name, AttributeProto.FLOATS, "floats", default)
        return value if value is default else tuple(value)

    def strings(self, name: str, default: T = REQUIRED) -> tuple[str, ...] | T:
        value = self._get(name, AttributeProto.STRINGS, "strings", default)
        return value if value is default else tuple(self._text(v, name) for v in value)

    def tensor(self, name: str, default: T = REQUIRED) -> Weight | T:
        value = self._get(name, AttributeProto.TENSOR, "t", default)
        return value if value is default else self.tensors_of_file.weight(value)

    def sparse_tensor(self, name: str, default: T = REQUIRED) -> Weight | T:
        value = self._get(name, AttributeProto.SPARSE_TENSOR, "sparse_tensor", default)
        return value if value is default else self.tensors_of_file.sparse(value)

    def graph(self, name: str) -> onnx.GraphProto:
        return self._get(name, AttributeProto.GRAPH, "g", REQUIRED)

    def dtype(self, name: str, default: T = REQUIRED) -> str | T:
        """An element type, which the attribute gives by its ONNX number."""
        code = self._get(name, AttributeProto.INT, "i", default)
        if code is default:
            return default
        if code not in ELEMENT_TYPES:
            self.fail(f"unsupported element type {element_name(code)}", name)
        return ELEMENT_TYPES[code]

    def _text(self, value: bytes, name: str) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            self.fail("is not UTF-8", name)
