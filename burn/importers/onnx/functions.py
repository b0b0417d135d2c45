"""Functions become nodes: those that a model defines, and those by which ONNX itself defines operators.

`inline_functions` replaces every call of a model-local function by the function's nodes, under fresh names. `expand`
does the same for one node of a standard operator that has a function body, for operators without a builder.

A function imports operator sets of its own. A node that came from one with other versions than the model's carries its
version in `metadata_props`; `opset_of` is how to ask for a node's version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

from burn.errors import ModelError, Problem
from burn.importers.onnx.order import initializer_names, subgraphs

FunctionKey = tuple[str, str, str]  # domain, name, overload

MAX_NODES = 1_000_000  # functions that call functions can ask for exponentially many
MAX_DEPTH = 100  # calls within calls
_OPSET = "burn.opset"


def domain_name(domain: str) -> str:
    """A domain with the default one's alias resolved."""
    return "" if domain == "ai.onnx" else domain


def function_key(function: FunctionProto) -> FunctionKey:
    return domain_name(function.domain), function.name, function.overload


def call_key(node: NodeProto) -> FunctionKey:
    return domain_name(node.domain), node.op_type, node.overload


def opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Domain -> version."""
    return {domain_name(entry.domain): entry.version for entry in imports}


def opset_of(node: NodeProto, versions: Mapping[str, int]) -> int:
    """The version of its domain that a node is written in; `versions` are the model's."""
    for entry in node.metadata_props:
        if entry.key == _OPSET:
            return int(entry.value)
    return versions.get(domain_name(node.domain), 1)


def calls(nodes: Iterable[NodeProto]) -> Counter[FunctionKey]:
    """The functions that the nodes, and those in their subgraphs, call, with counts."""
    found: Counter[FunctionKey] = Counter()
    for node in nodes:
        found[call_key(node)] += 1
        for graph in subgraphs(node):
            found += calls(graph.node)
    return found


def call_order(functions: Mapping[FunctionKey, FunctionProto]) -> tuple[list[FunctionKey], set[FunctionKey]]:
    """(the functions, each after those that it calls; those that call themselves, or wait for such a one)."""
    waiting = {key: set(calls(function.node)) & functions.keys() for key, function in functions.items()}
    callers: dict[FunctionKey, list[FunctionKey]] = {key: [] for key in functions}
    for key, called in waiting.items():
        for callee in called:
            callers[callee].append(key)
    order = [key for key, called in waiting.items() if not called]
    for key in order:  # grows on the way
        for caller in callers[key]:
            waiting[caller].remove(key)
            if not waiting[caller]:
                order.append(caller)
    return order, functions.keys() - set(order)


def inline_functions(model: ModelProto) -> None:
    """Replaces the calls of the model's own functions by their bodies, in place. The model must have passed the check.

    Raises ModelError when the result would be of more than MAX_NODES nodes.
    """
    _forget_marks(model.graph.node)
    if not model.functions:
        return
    versions = opsets(model.opset_import)
    functions = {function_key(function): function for function in model.functions}
    _check_growth(model.graph, functions)
    inliner = _Inliner(functions, versions)
    for function in model.functions:
        _forget_marks(function.node)
    inliner.graph(model.graph)
    del model.functions[:]


def expand(
    node: NodeProto,
    opset: int,
    input_types: Sequence[TypeProto | None],
    versions: Mapping[str, int] | None = None,
) -> list[NodeProto] | None:
    """The nodes by which ONNX defines a standard operator's node, or None if ONNX has no such definition.

    `opset`: the version of the node's domain. `input_types`: one per input, None if unknown; some definitions depend on
    them. `versions`: the model's operator sets; nodes of others are marked (`opset_of`). The result may hold operators
    that have function bodies themselves. Raises ModelError if the definition needs unknown types.
    """
    domain = domain_name(node.domain)
    try:
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset, domain=domain)
    except onnx.defs.SchemaError:
        return None
    function = _definition(node, schema, opset, input_types)
    if function is None:
        return None
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    given = {attribute.name for attribute in node.attribute}
    call = NodeProto.FromString(node.SerializeToString())
    call.attribute.extend(value for name, value in defaults.items() if value.name and name not in given)
    known = dict(versions) if versions is not None else {domain: opset}
    return _Inliner({}, known).body(call, function, f"{node.op_type}:{next((o for o in node.output if o), node.name)}/")


def _definition(
    node: NodeProto, schema: Any, opset: int, input_types: Sequence[TypeProto | None]
) -> FunctionProto | None:
    """The function body of a standard operator, in the version of the body that is nearest below the opset."""
    plain, dependent = schema.function_opset_versions, schema.context_dependent_function_opset_versions
    if plain:
        version = max((v for v in plain if v <= opset), default=min(plain))
        return FunctionProto.FromString(schema.get_function_with_opset_version(version))
    if not dependent:
        return None
    version = max((v for v in dependent if v <= opset), default=min(dependent))
    types = [(type_ or TypeProto()).SerializeToString() for type_ in input_types]
    text = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
    function = FunctionProto.FromString(text)
    if not function.node:
        message = "the operator's definition depends on its inputs' types, which are not known"
        raise ModelError("an operator could not be expanded", [Problem(message, node.name, node.op_type, node.domain)])
    return function


def _check_growth(graph: GraphProto, functions: Mapping[FunctionKey, FunctionProto]) -> None:
    """Raises ModelError when inlining would make too many nodes, or nest calls too deep, before it is begun."""
    sizes: dict[FunctionKey, int] = {}
    depths: dict[FunctionKey, int] = {}
    for key in call_order(functions)[0]:
        called = calls(functions[key].node)
        sizes[key] = sum(count * sizes.get(callee, 1) for callee, count in called.items())
        depths[key] = 1 + max((depths[callee] for callee in called if callee in depths), default=0)
    called = calls(graph.node)
    if sum(count * sizes.get(callee, 1) for callee, count in called.items()) > MAX_NODES:
        raise ModelError("the model is too large", [f"its functions expand to more than {MAX_NODES} nodes"])
    if max((depths.get(callee, 0) for callee in called), default=0) > MAX_DEPTH:
        raise ModelError("the model is too deep", [f"its functions call each other more than {MAX_DEPTH} deep"])


def _forget_marks(nodes: Iterable[NodeProto]) -> None:
    """Takes out marks that a file brings along: they mean something only when they were put there here."""
    for node in nodes:
        if any(entry.key == _OPSET for entry in node.metadata_props):
            kept = [entry for entry in node.metadata_props if entry.key != _OPSET]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
        for graph in subgraphs(node):
            _forget_marks(graph.node)


@dataclass
class _Inliner:
    """Replaces calls of `functions`; `versions` are those of the graph that the nodes end up in."""

    functions: Mapping[FunctionKey, FunctionProto]
    versions: Mapping[str, int]
    _calls: int = 0

    def graph(self, graph: GraphProto) -> None:
        """Inlines the calls in a graph and in its subgraphs, in place."""
        if not calls(graph.node).keys() & self.functions.keys():
            return
        nodes: list[NodeProto] = []
        for node in graph.node:
            nodes += self.node(NodeProto.FromString(node.SerializeToString()))
        del graph.node[:]
        graph.node.extend(nodes)

    def node(self, node: NodeProto) -> list[NodeProto]:
        """The nodes that stand for one node."""
        for graph in subgraphs(node):
            self.graph(graph)
        function = self.functions.get(call_key(node))
        if function is None:
            return [node]
        self._calls += 1
        label = node.name or node.op_type
        made = self.body(node, function, f"{label}:{self._calls}/")
        return [inner for one in made for inner in self.node(one)]

    def body(self, call: NodeProto, function: FunctionProto, prefix: str) -> list[NodeProto]:
        """A function's nodes for one call: formals become actuals, other names get the prefix."""
        names = dict(zip(function.input, call.input, strict=False))
        names.update((name, "") for name in function.input[len(call.input) :])
        passed = set(function.input) & set(function.output)
        copies: list[NodeProto] = []
        for formal, actual in zip(function.output, call.output, strict=False):
            if not actual:
                continue
            if formal in passed or names.get(formal):  # an input, or an output named twice
                copies.append(onnx.helper.make_node("Identity", [names[formal]], [actual], f"{prefix}{formal}"))
            else:
                names[formal] = actual
        attributes = {attribute.name: attribute for attribute in function.attribute_proto}
        attributes.update((attribute.name, attribute) for attribute in call.attribute)
        copier = _Copier(prefix, attributes, opsets(function.opset_import), self.versions)
        return [copier.node(node, _Names(names, prefix)) for node in function.node] + copies


@dataclass
class _Names:
    """Renames the names of one scope of a function body; a name that is not mapped is the function's own."""

    known: dict[str, str]
    prefix: str

    def __call__(self, name: str) -> str:
        if not name:
            return ""
        return self.known.setdefault(name, self.prefix + name)

    def inner(self, defined: Iterable[str]) -> _Names:
        """The names of a subgraph, which defines some of its own and sees the rest."""
        return _Names({**self.known, **{name: self.prefix + name for name in defined if name}}, self.prefix)


@dataclass
class _Copier:
    """Copies a function's nodes for one call, with names, attributes and versions made those of the call."""

    prefix: str
    attributes: Mapping[str, AttributeProto]  # the call's, and the function's defaults
    versions: Mapping[str, int]  # what the function imports
    outer: Mapping[str, int]  # what the model imports

    def node(self, source: NodeProto, names: _Names) -> NodeProto:
        node = NodeProto()
        node.CopyFrom(source)
        node.name = self.prefix + (source.name or source.op_type)
        del node.input[:], node.output[:], node.attribute[:]
        node.input.extend(names(name) for name in source.input)
        node.output.extend(names(name) for name in source.output)
        for attribute in source.attribute:
            value = self.attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if value is None:
                continue  # the call omits an optional attribute, so the node must omit it
            node.attribute.add().CopyFrom(value)
            node.attribute[-1].name = attribute.name
            if value is attribute:  # a graph that the call passes in keeps the names of the caller
                self.subgraphs(node.attribute[-1], names)
        version = self.versions.get(domain_name(node.domain))
        if version is not None and version != self.outer.get(domain_name(node.domain)):
            node.metadata_props.add(key=_OPSET, value=str(version))
        return node

    def subgraphs(self, attribute: AttributeProto, names: _Names) -> None:
        if attribute.type == AttributeProto.GRAPH:
            self.graph(attribute.g, names)
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                self.graph(graph, names)

    def graph(self, graph: GraphProto, outer: _Names) -> None:
        """Renames a subgraph of the body, in place."""
        defined = {value.name for value in graph.input} | set(initializer_names(graph))
        names = outer.inner(defined.union(*(node.output for node in graph.node)))
        for holder in (*graph.input, *graph.output, *graph.initializer, *(s.values for s in graph.sparse_initializer)):
            holder.name = names(holder.name)
        del graph.value_info[:]
        nodes = [self.node(node, names) for node in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
