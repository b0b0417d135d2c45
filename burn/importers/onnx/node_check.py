"""One node against its operator's definition: operands, attributes and element types. Enter at `check_node`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from onnx import AttributeProto

from burn.dialect import custom
from burn.errors import Problem
from burn.importers.onnx.functions import FunctionKey, call_key, domain_name
from burn.importers.onnx.schemas import (
    ANY_COUNT,
    TYPE_NAMES,
    Parameter,
    Signature,
    attribute_type_name,
    newest_version,
    signature,
    suggestion,
    with_element,
)

# AttributeProto.type -> the field that holds the value.
FIELDS: dict[int, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
# These must be there when the type says so; a number or a string may be left out for zero or empty.
_MESSAGES = (AttributeProto.TENSOR, AttributeProto.GRAPH, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO)

# Attributes that name the element type of an output, in any operator.
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")
_CONSTANTS = {
    "value_float": "tensor(float)",
    "value_floats": "tensor(float)",
    "value_int": "tensor(int64)",
    "value_ints": "tensor(int64)",
    "value_string": "tensor(string)",
    "value_strings": "tensor(string)",
}

UNKNOWN_OPERATOR = "unknown operator"
"""How such problems begin."""

RUN_STILL = {("", "GroupNormalization")}
"""Operators of a version that the standard marked as deprecated, and that runtimes and newer standards take."""


@dataclass(frozen=True)
class Context:
    """The names that nodes of a graph or a function may refer to. attributes: the function's; None in a graph."""

    versions: Mapping[str, int]
    functions: Mapping[FunctionKey, onnx.FunctionProto]
    known: frozenset[tuple[str, str]] = frozenset()
    attributes: frozenset[str] | None = None

    def problem(self, node: onnx.NodeProto, message: str, attribute: str = "", hint: str = "") -> Problem:
        domain = domain_name(node.domain)
        return Problem(message, node_label(node), node.op_type, domain, self.versions.get(domain), attribute, hint)


def node_label(node: onnx.NodeProto) -> str:
    """How an error names a node; names are optional in ONNX, outputs are not."""
    return node.name or next((name for name in node.output if name), "") or node.op_type


def check_node(
    node: onnx.NodeProto, types: list[str | None], context: Context, problems: list[Problem]
) -> list[str | None]:
    """Adds what is wrong with a node to `problems`; returns its outputs' types as far as they follow from `types`."""
    _check_attribute_values(node, context, problems)
    function = context.functions.get(call_key(node))
    if function is not None:
        _check_call(node, function, context, problems)
        return []
    domain = domain_name(node.domain)
    if not node.op_type:
        problems.append(context.problem(node, "the node names no operator"))
        return []
    if domain not in context.versions:
        problems.append(context.problem(node, f"domain '{domain or 'ai.onnx'}' is not imported by the model"))
        return []
    definition = signature(node.op_type, domain, context.versions[domain])
    if definition is None:
        if (domain, node.op_type) not in context.known:
            known_domain = newest_version(domain) is not None
            message = UNKNOWN_OPERATOR if known_domain else f"{UNKNOWN_OPERATOR} of domain '{domain}'"
            hint = suggestion(node.op_type, domain) or ("" if known_domain else custom.suggestion(domain, node.op_type))
            problems.append(context.problem(node, message, hint=hint))
        return []
    if definition.deprecated and (domain, node.op_type) not in RUN_STILL:
        problems.append(context.problem(node, f"the operator is deprecated since opset {definition.since}"))
    _check_counts(node, definition, context, problems)
    _check_attributes(node, definition, context, problems)
    return _check_types(node, types, definition, context, problems)


def _check_call(node: onnx.NodeProto, function: onnx.FunctionProto, context: Context, problems: list[Problem]) -> None:
    for what, given, formal in (("inputs", node.input, function.input), ("outputs", node.output, function.output)):
        if len(given) > len(formal):
            problems.append(context.problem(node, f"{len(given)} {what} for a function of {len(formal)}"))
    given = {attribute.name for attribute in node.attribute}
    for name in sorted(set(function.attribute) - given):
        problems.append(context.problem(node, "the function's attribute is missing", name))
    defined = set(function.attribute) | {attribute.name for attribute in function.attribute_proto}
    for name in sorted(given - defined):
        problems.append(context.problem(node, "the function has no such attribute", name))


def _check_counts(node: onnx.NodeProto, definition: Signature, context: Context, problems: list[Problem]) -> None:
    sides = (
        ("input", node.input, definition.inputs, definition.min_inputs, definition.max_inputs),
        ("output", node.output, definition.outputs, definition.min_outputs, definition.max_outputs),
    )
    for what, names, formal, low, high in sides:
        if not low <= len(names) <= high:
            wanted = str(low) if low == high else f"at least {low}" if high == ANY_COUNT else f"{low} to {high}"
            problems.append(context.problem(node, f"{len(names)} {what}s, the operator has {wanted}"))
        for index, name in enumerate(names):
            if not name and index < len(formal) and formal[index].required:
                problems.append(context.problem(node, f"required {what} {index} ({formal[index].name}) is left out"))


def _check_attribute_values(node: onnx.NodeProto, context: Context, problems: list[Problem]) -> None:
    """Checks rules for attributes of all operators. An attribute without a type, as in the oldest files, gets that of its
    value."""
    seen: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if not name or name in seen:
            problems.append(context.problem(node, "given twice" if name else "an attribute has no name", name))
        seen.add(name)
        if attribute.type not in FIELDS:
            present = [kind for kind, field in FIELDS.items() if _has(attribute, field)]
            if attribute.type == AttributeProto.UNDEFINED and len(present) == 1:
                attribute.type = present[0]  # type: ignore[assignment]
            else:
                problems.append(context.problem(node, f"has no usable type ({attribute.type})", name))
                continue
        if attribute.ref_attr_name:
            if context.attributes is None:
                problems.append(context.problem(node, "refers to a function's attribute outside of a function", name))
            elif attribute.ref_attr_name not in context.attributes:
                text = f"refers to '{attribute.ref_attr_name}', which is no attribute of the function"
                problems.append(context.problem(node, text, name))
        elif attribute.type in _MESSAGES and not attribute.HasField(FIELDS[attribute.type]):
            problems.append(context.problem(node, f"has no {attribute_type_name(attribute.type)}", name))


def _has(attribute: AttributeProto, field: str) -> bool:
    return bool(getattr(attribute, field)) if field.endswith("s") and len(field) > 1 else attribute.HasField(field)


def _check_attributes(node: onnx.NodeProto, definition: Signature, context: Context, problems: list[Problem]) -> None:
    for attribute in node.attribute:
        name = attribute.name
        if name not in definition.attributes:
            problems.append(context.problem(node, "the operator has no such attribute", name))
            continue
        type_ = definition.attributes[name][0]
        if attribute.type != type_ and attribute.type in FIELDS:
            text = f"is {attribute_type_name(attribute.type)}, must be {attribute_type_name(type_)}"
            problems.append(context.problem(node, text, name))
        elif type_ in (AttributeProto.STRING, AttributeProto.STRINGS):
            values = [attribute.s] if type_ == AttributeProto.STRING else attribute.strings
            if not all(_is_text(value) for value in values):
                problems.append(context.problem(node, "is not UTF-8", name))
    given = {attribute.name for attribute in node.attribute}
    for name, (_, required) in definition.attributes.items():
        if required and name not in given:
            problems.append(context.problem(node, "required attribute is missing", name))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_types(
    node: onnx.NodeProto, types: list[str | None], definition: Signature, context: Context, problems: list[Problem]
) -> list[str | None]:
    variables: dict[str, tuple[str, str]] = {}  # type variable -> (its type, the input that set it)
    for index, type_ in enumerate(types):
        parameter = definition.parameter(definition.inputs, index)
        if type_ is None or parameter is None:
            continue
        label = f"input '{node.input[index]}' ({parameter.name})"
        if type_ not in parameter.types:
            problems.append(context.problem(node, f"{label} is {type_}, must be {_one_of(parameter.types)}"))
        elif parameter.bound and parameter.homogeneous:
            other, setter = variables.setdefault(parameter.type, (type_, label))
            if other != type_:
                problems.append(context.problem(node, f"{label} is {type_}, but {setter} is {other}"))
    results: list[str | None] = []
    for index in range(len(node.output)):
        parameter = definition.parameter(definition.outputs, index)
        results.append(parameter and _output_type(node, parameter, variables))
    return results


def _output_type(node: onnx.NodeProto, parameter: Parameter, variables: dict[str, tuple[str, str]]) -> str | None:
    if not parameter.bound:
        return parameter.type
    if parameter.homogeneous and parameter.type in variables:
        return variables[parameter.type][0]
    if len(parameter.types) == 1:
        return next(iter(parameter.types))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        return "tensor(float)"
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            continue
        if attribute.name in _TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT:
            return with_element(parameter.types, attribute.i)
        if node.op_type in ("Constant", "ConstantOfShape"):
            if attribute.type == AttributeProto.TENSOR:
                return with_element(parameter.types, attribute.t.data_type)
            return _CONSTANTS.get(attribute.name)
    return None


def _one_of(types: frozenset[str]) -> str:
    """The types that an input may have; all tensors of a standard set are too many to read."""
    order = {f"tensor({name})": number for number, name in TYPE_NAMES.items()}
    listed = sorted(types, key=lambda type_: (order.get(type_, len(order)), type_))
    if len(listed) > 8:
        return f"one of {', '.join(listed[:8])} or {len(listed) - 8} others"
    return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"
