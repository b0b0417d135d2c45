"""ONNX's operator definitions in a form that is quick to check a node against. Enter at `signature`.

`onnx.defs` answers each query through a C++ call. A model repeats a few queries about a few operators thousands of times, so
they are cached per (operator, domain, version).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, TypeProto
from onnx.defs import OpSchema

ANY_COUNT = 2**31 - 1  # what onnx.defs gives as the maximum of a variadic parameter

_Option = OpSchema.FormalParameterOption
# TensorProto.DataType -> its name in a schema's type strings, e.g. "tensor(float)".
TYPE_NAMES: dict[int, str] = {
    number: name.lower() for name, number in TensorProto.DataType.items() if number != TensorProto.UNDEFINED
}
_NUMBERS = {name: number for number, name in TYPE_NAMES.items()}


@dataclass(frozen=True)
class Parameter:
    """A formal input or output. type: a type string or, when `bound`, the name of a type variable."""

    name: str
    type: str
    types: frozenset[str]
    required: bool
    variadic: bool
    homogeneous: bool
    bound: bool


@dataclass(frozen=True)
class Signature:
    """An operator at one version. attributes: name -> (type as in AttributeProto.type, required)."""

    since: int
    deprecated: bool
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    attributes: dict[str, tuple[int, bool]]

    @staticmethod
    def parameter(parameters: tuple[Parameter, ...], index: int) -> Parameter | None:
        """The formal parameter of an operand; the last one may be variadic."""
        if index < len(parameters):
            return parameters[index]
        return parameters[-1] if parameters and parameters[-1].variadic else None


@cache
def signature(op: str, domain: str, version: int) -> Signature | None:
    """The operator as of a version of its domain, or None when ONNX defines no such operator there."""
    version = max(0, min(version, ANY_COUNT))  # onnx takes a C int
    try:
        schema = onnx.defs.get_schema(op, max_inclusive_version=version, domain=domain)
    except onnx.defs.SchemaError:
        return None
    attributes: dict[str, Any] = dict(schema.attributes)
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    return Signature(
        schema.since_version,
        schema.deprecated,
        tuple(_parameter(parameter, variables) for parameter in schema.inputs),
        tuple(_parameter(parameter, variables) for parameter in schema.outputs),
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        # AttrType and AttributeProto.AttributeType share their numbers.
        {name: (int(attribute.type.value), attribute.required) for name, attribute in attributes.items()},
    )


@cache
def default_of(op: str, domain: str, version: int, attribute: str) -> AttributeProto | None:
    """The value that an attribute has when a node leaves it out, or None when ONNX defines none."""
    try:
        schema = onnx.defs.get_schema(op, max_inclusive_version=max(0, min(version, ANY_COUNT)), domain=domain)
    except onnx.defs.SchemaError:
        return None
    formal = schema.attributes.get(attribute)
    return formal.default_value if formal is not None and formal.default_value.name else None


def _parameter(parameter: OpSchema.FormalParameter, variables: set[str]) -> Parameter:
    return Parameter(
        parameter.name,
        parameter.type_str,
        frozenset(parameter.types),
        parameter.option == _Option.Single,
        parameter.option == _Option.Variadic,
        parameter.is_homogeneous,
        parameter.type_str in variables,
    )


@cache
def _versions() -> dict[str, dict[str, int]]:
    """Domain -> operator -> the version that introduced it."""
    versions: dict[str, dict[str, int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known = versions.setdefault(schema.domain, {})
        known[schema.name] = min(known.get(schema.name, schema.since_version), schema.since_version)
    return versions


def newest_version(domain: str) -> int | None:
    """The newest version of a domain that ONNX defines, or None for a domain of someone else's."""
    version = onnx.defs.C.schema_version_map().get(domain)
    return version[1] if version else None


def suggestion(op: str, domain: str) -> str:
    """A hint about an operator that is not defined in the version of the model."""
    versions = _versions()
    if op in versions.get(domain, {}):
        return f"it was introduced in opset {versions[domain][op]}"
    for other, operators in versions.items():
        if op in operators:
            return f"it belongs to domain '{other or 'ai.onnx'}'"
    close = difflib.get_close_matches(op, versions.get(domain, {}), 1)
    return f"did you mean {close[0]}?" if close else ""


def attribute_type_name(number: int) -> str:
    names = AttributeProto.AttributeType
    return names.Name(number).lower() if number in names.values() else f"type {number}"


def type_string(type_: TypeProto) -> str | None:
    """A type as schemas write it, e.g. "seq(tensor(float))"; None when it is not given or not valid."""
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        name = TYPE_NAMES.get(getattr(type_, kind).elem_type)
        return name and f"{'tensor' if kind == 'tensor_type' else 'sparse_tensor'}({name})"
    if kind in ("sequence_type", "optional_type"):
        inner = type_string(getattr(type_, kind).elem_type)
        return inner and f"{'seq' if kind == 'sequence_type' else 'optional'}({inner})"
    if kind == "map_type":
        key, value = TYPE_NAMES.get(type_.map_type.key_type), type_string(type_.map_type.value_type)
        return f"map({key},{value})" if key and value else None
    return None


def type_proto(text: str) -> TypeProto:
    """The TypeProto of a type string of tensors, sequences and optionals, without shapes."""
    kind, _, inner = text.partition("(")
    inner = inner[:-1]
    type_ = TypeProto()
    if kind == "tensor":
        type_.tensor_type.elem_type = _NUMBERS[inner]
    elif kind in ("seq", "optional"):
        member = type_.sequence_type if kind == "seq" else type_.optional_type
        member.elem_type.CopyFrom(type_proto(inner))
    else:
        raise ValueError(f"no TypeProto is made of {text}")
    return type_


def with_element(types: Sequence[str] | frozenset[str], element: int) -> str | None:
    """The one of the types that is made of an element type (an attribute such as Cast's `to`)."""
    name = TYPE_NAMES.get(element)
    return next((text for text in (f"tensor({name})", f"seq(tensor({name}))") if text in types), None)
