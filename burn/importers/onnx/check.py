"""Everything that is wrong with a model's structure, before anything is built, in one error. Enter at `check_model`.

A model is checked against the operator definitions in `onnx.defs` and the rules of ONNX's IR.md. These cover names defined once
and before use, operand counts, attributes and their types, element types, sizes of tensors, and functions.
Builders report what burn itself does not support; their nodes are well-formed.

Two things are mended rather than refused, in place: nodes that are not in topological order are sorted, and the alias
"ai.onnx" of the default domain becomes "".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import onnx
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from onnx import AttributeProto

from burn.errors import ModelError, Problem
from burn.importers import strangers
from burn.importers.onnx.file import OnnxFile
from burn.importers.onnx.functions import FunctionKey, call_order, domain_name, function_key
from burn.importers.onnx.node_check import UNKNOWN_OPERATOR, Context, check_node, node_label
from burn.importers.onnx.order import initializer_names, sort_nodes, subgraphs
from burn.importers.onnx.schemas import TYPE_NAMES, newest_version, type_string
from burn.importers.onnx.tensors import element_name

OLDEST_OPSET = 7  # older operators broadcast and infer by rules of their own
ASSUMED = {"com.microsoft": 1, "com.microsoft.nchwc": 1}
"""Versions of domains that files need not import: ONNX Runtime's own, which its tools leave out."""

MAX_PROBLEMS = 200  # what a person can be expected to read of one file


def check_model(file: OnnxFile, known: Collection[tuple[str, str]] = ()) -> None:
    """Raises one ModelError that lists every problem of the model.

    known: (domain, operator) pairs outside of ONNX that the importer can build; their nodes' operands are not checked.
    """
    checker = _Checker(file, known)
    problems = list(dict.fromkeys(_unreadable(file.proto)))
    if not problems:  # names that are not text would confuse every later check
        checker.model()
        problems = list(dict.fromkeys(checker.problems))
    if problems:
        more = len(problems) - MAX_PROBLEMS
        listed = problems[:MAX_PROBLEMS] + ([Problem(f"... and {more} more problems")] if more > 0 else [])
        unsupported = all(problem.message.startswith(UNKNOWN_OPERATOR) for problem in problems)
        raise ModelError(f"{file.name} {'cannot be imported' if unsupported else 'is not a valid ONNX model'}", listed)


@dataclass
class _Scope:
    """Names visible in a graph and their type strings, where known; then those of the graphs around it."""

    types: dict[str, str | None] = field(default_factory=dict)
    outer: _Scope | None = None

    def find(self, name: str) -> tuple[bool, str | None]:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.types:
                return True, scope.types[name]
            scope = scope.outer
        return False, None


class _Checker:
    def __init__(self, file: OnnxFile, known: Collection[tuple[str, str]]) -> None:
        self.file = file
        self.known = frozenset(known)
        self.problems: list[Problem] = []
        self.functions: dict[FunctionKey, onnx.FunctionProto] = {}

    def add(self, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, hint=hint))

    # The model

    def model(self) -> None:
        model = self.file.proto
        if not model.HasField("graph"):
            found = strangers.perhaps(b"\0", self.file.path)
            why = f"it may be {found.what}: {found.hint}" if found else "the file is cut short, or not an ONNX model"
            self.add("the model has no graph", why)
            return
        if not model.ir_version:
            self.add("the model does not say its IR version")
        elif not 1 <= model.ir_version <= onnx.IR_VERSION:
            self.add(f"IR version {model.ir_version} is not supported", f"1 to {onnx.IR_VERSION} are")
        versions = self.imports(model.opset_import, "the model")
        if not model.opset_import:
            if model.ir_version < 3:
                versions = {"": 1}  # IR versions 1 and 2 knew no other
            else:
                self.add("the model imports no operator set")
                return
        versions = {**ASSUMED, **versions}
        self.collect_functions()
        for function in model.functions:
            self.function(function)
        self.graph(model.graph, Context(versions, self.functions, self.known), None)
        if self.problems and versions.get("", OLDEST_OPSET) < OLDEST_OPSET:
            self.add(
                f"opset {versions['']} is supported in part only", f"convert the model to opset {OLDEST_OPSET} or newer"
            )

    def imports(self, entries: Collection[onnx.OperatorSetIdProto], owner: str) -> dict[str, int]:
        versions: dict[str, int] = {}
        for entry in entries:
            domain, newest = domain_name(entry.domain), newest_version(domain_name(entry.domain))
            label = domain or "ai.onnx"
            if versions.setdefault(domain, entry.version) != entry.version:
                self.add(f"{owner} imports two versions of {label}: {versions[domain]} and {entry.version}")
            if entry.version < 1 or (newest is not None and entry.version > newest):
                range_ = f"1 to {newest} are known" if newest else "versions begin at 1"
                self.add(f"{owner} imports version {entry.version} of {label}", range_)
        return versions

    # Functions

    def collect_functions(self) -> None:
        for function in self.file.proto.functions:
            key = function_key(function)
            if key in self.functions:
                self.add(f"function {function.domain}::{function.name} is defined twice")
            self.functions[key] = function
        cyclic = call_order(self.functions)[1]
        if cyclic:
            names = ", ".join(sorted(f"{domain}::{name}" for domain, name, _ in cyclic))
            self.add(f"functions call themselves, directly or through each other: {names}")

    def function(self, function: onnx.FunctionProto) -> None:
        label = f"function {function.domain}::{function.name}"
        before = len(self.problems)
        for kind, names in (("input", function.input), ("output", function.output), ("attribute", function.attribute)):
            if len(set(names)) != len(names) or "" in names:
                self.add(f"an {kind} has no name, or that of another")
        versions = self.imports(function.opset_import, "it")
        attributes = set(function.attribute) | {attribute.name for attribute in function.attribute_proto}
        context = Context(versions, self.functions, self.known, frozenset(attributes))
        scope = _Scope(dict.fromkeys(function.input))
        self.nodes(function.node, scope, context)
        for name in function.output:
            if not scope.find(name)[0]:
                self.add(f"output '{name}' is not defined")
        for index in range(before, len(self.problems)):
            problem = self.problems[index]
            self.problems[index] = Problem(**{**vars(problem), "message": f"in {label}: {problem.message}"})

    # Graphs

    def graph(self, graph: onnx.GraphProto, context: Context, outer: _Scope | None) -> list[str | None]:
        """Checks a graph and returns the types of its outputs."""
        scope = _Scope(outer=outer)
        for value in graph.input:
            if value.name in scope.types or not value.name:
                self.add(
                    f"input '{value.name}' of graph '{graph.name}' is defined twice"
                    if value.name
                    else "an input has no name"
                )
            scope.types[value.name] = self.value_type(value, required=outer is None)
        self.initializers(graph, scope)
        self.nodes(graph.node, scope, context)
        results: list[str | None] = []
        for value in graph.output:
            found, type_ = scope.find(value.name)
            declared = self.value_type(value, required=False)
            if not found:
                self.add(f"output '{value.name}' of graph '{graph.name}' is not defined")
            elif type_ and declared and type_ != declared:
                self.add(f"output '{value.name}' is declared {declared}, but is {type_}")
            results.append(type_ or declared)
        return results

    def value_type(self, value: onnx.ValueInfoProto, required: bool) -> str | None:
        type_ = type_string(value.type)
        kind = value.type.WhichOneof("value")
        if type_ is None and (required or kind is not None):
            what = "has no type"
            if kind == "tensor_type" and value.type.tensor_type.elem_type:
                what = f"has unknown element type {element_name(value.type.tensor_type.elem_type)}"
            elif kind is not None:
                what = f"has an incomplete or unsupported type ({kind})"
            self.add(f"value '{value.name}' {what}")
        return type_

    def initializers(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        declared = {value.name: value for value in graph.input}
        seen: set[str] = set()
        for name in initializer_names(graph):
            if not name or name in seen:
                self.add(f"initializer '{name}' is defined twice" if name else "an initializer has no name")
            seen.add(name)
        for tensor in graph.initializer:
            self.problems += [Problem(f"initializer '{tensor.name}': {p}") for p in self.file.tensors.problems(tensor)]
            self.agrees(tensor.name, tensor.data_type, list(tensor.dims), declared.get(tensor.name))
            scope.types[tensor.name] = _tensor_type(tensor.data_type)
        for sparse in graph.sparse_initializer:
            name, data_type = sparse.values.name, sparse.values.data_type
            self.problems += [
                Problem(f"sparse initializer '{name}': {p}") for p in self.file.tensors.sparse_problems(sparse)
            ]
            self.agrees(name, data_type, list(sparse.dims), declared.get(name))
            scope.types[name] = _tensor_type(data_type)

    def agrees(self, name: str, data_type: int, dims: list[int], value: onnx.ValueInfoProto | None) -> None:
        """An initializer that is an input too must have the type that the input declares."""
        if value is None or value.type.WhichOneof("value") != "tensor_type":
            return
        tensor = value.type.tensor_type
        if tensor.elem_type and tensor.elem_type != data_type:
            self.add(f"initializer '{name}' is {element_name(data_type)}, its input {element_name(tensor.elem_type)}")
        if tensor.HasField("shape"):
            shape = [
                dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
            ]
            if len(shape) != len(dims) or any(a is not None and a != b for a, b in zip(shape, dims, strict=True)):
                text = [dim if dim is not None else "?" for dim in shape]
                self.add(f"initializer '{name}' has shape {dims}, its input {text}")

    def nodes(self, nodes: RepeatedCompositeFieldContainer[onnx.NodeProto], scope: _Scope, context: Context) -> None:
        """Checks a list of nodes, which is sorted in place if it has to be, and adds their outputs to the scope."""
        order, cycle = sort_nodes(list(nodes), scope.types)
        if cycle:
            self.add(f"nodes wait for each other in a cycle: {' -> '.join(node_label(node) for node in cycle[:20])}")
        if order is not None:
            copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
            del nodes[:]
            nodes.extend(copies)
        produced = {name for node in nodes for name in node.output}
        for node in nodes:
            if node.domain == "ai.onnx":
                node.domain = ""
            types: list[str | None] = []
            for name in node.input:
                found, type_ = scope.find(name) if name else (True, None)
                if not found and not (cycle and name in produced):
                    self.problems.append(context.problem(node, f"input '{name}' is not defined"))
                types.append(type_)
            results = check_node(node, types, context, self.problems)
            self.attribute_tensors(node, context)
            bodies = [self.graph(graph, context, scope) for graph in subgraphs(node)]
            self.define_outputs(node, _body_types(node, bodies) or results, scope, context)

    def define_outputs(self, node: onnx.NodeProto, types: list[str | None], scope: _Scope, context: Context) -> None:
        for index, name in enumerate(node.output):
            if not name:
                continue
            if name in scope.types:
                self.problems.append(
                    context.problem(node, f"output '{name}' is already defined", hint="names are defined once")
                )
            scope.types[name] = types[index] if index < len(types) else None

    def attribute_tensors(self, node: onnx.NodeProto, context: Context) -> None:
        for attribute in node.attribute:
            problems: list[str] = []
            if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
                problems = self.file.tensors.problems(attribute.t)
            elif attribute.type == AttributeProto.TENSORS:
                problems = [problem for tensor in attribute.tensors for problem in self.file.tensors.problems(tensor)]
            elif attribute.type == AttributeProto.SPARSE_TENSOR and not attribute.ref_attr_name:
                problems = self.file.tensors.sparse_problems(attribute.sparse_tensor)
            self.problems += [context.problem(node, problem, attribute.name) for problem in problems]


def _tensor_type(data_type: int) -> str | None:
    name = TYPE_NAMES.get(data_type)
    return name and f"tensor({name})"


def _body_types(node: onnx.NodeProto, bodies: list[list[str | None]]) -> list[str | None] | None:
    """The types of a control-flow node's outputs, which are those of its bodies' outputs."""
    if node.op_type == "If" and len(bodies) == 2:
        return [a if a == b else None for a, b in zip(*bodies, strict=False)]
    if node.op_type in ("Loop", "Scan") and len(bodies) == 1:
        return bodies[0][1:] if node.op_type == "Loop" else bodies[0]
    return None


def _unreadable(model: onnx.ModelProto) -> Iterator[Problem]:
    """Names that are not UTF-8, which the protobuf parser lets through as bytes."""
    holders: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    for entry in model.opset_import:
        yield from _not_text("the domain of an operator set", [entry.domain])
    while holders:
        holder = holders.pop()
        yield from _not_text("the name of a graph or function", [holder.name])
        if isinstance(holder, onnx.GraphProto):
            for value in (*holder.input, *holder.output, *holder.value_info):
                yield from _not_text("the name of a value", [value.name])
                if value.type.WhichOneof("value") == "tensor_type":
                    dims = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
                    yield from _not_text(f"the name of a dimension of '{value.name}'", dims)
            yield from _not_text("the name of an initializer", initializer_names(holder))
        else:
            yield from _not_text("a name in a function", [holder.domain, holder.overload])
            yield from _not_text("a name in a function", [*holder.input, *holder.output, *holder.attribute])
        for node in holder.node:
            names = [node.name, node.op_type, node.domain, node.overload, *node.input, *node.output]
            yield from _not_text("a name in a node", names)
            for attribute in node.attribute:
                yield from _not_text("the name of an attribute", [attribute.name, attribute.ref_attr_name])
                # Whatever the attribute says that it is: its type is mended later where it says nothing.
                holders += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _not_text(what: str, names: Iterable[str | bytes]) -> Iterator[Problem]:
    for name in names:
        if isinstance(name, bytes):
            yield Problem(f"{what} is not UTF-8: {name[:40]!r}")
