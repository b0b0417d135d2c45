"""An ONNX graph becomes a program: every node, in order, through one table of builders. Enter at `import_onnx`.

The build continues after a problem. A node that cannot be built leaves its outputs `FAILED`, and nodes that depend on those are
skipped. At the end one ModelError lists all problems.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx.helper

from burn.dialect import ops
from burn.dialect.compose import as_list
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.dialect.sequence import LIST
from burn.dialect.types import Container, TensorType, type_of
from burn.dialect.weights import Weight, array_weight
from burn.errors import BurnError, ModelError, Problem
from burn.importers.core import FAILED, Problems, Skipped
from burn.importers.onnx import custom
from burn.importers.onnx.check import check_model
from burn.importers.onnx.choices import Choices, Progress, search
from burn.importers.onnx.contents import Content, Unknown, materialise, wanted
from burn.importers.onnx.file import OnnxFile, Source, read_model
from burn.importers.onnx.folding import evaluate
from burn.importers.onnx.functions import domain_name, expand, inline_functions, opset_of, opsets
from burn.importers.onnx.lists import Maps, RunList, container_of, run_list
from burn.importers.onnx.modules import modules_of
from burn.importers.onnx.names import Given, SizeNames, Varying
from burn.importers.onnx.nchwc import DOMAIN as BLOCKED
from burn.importers.onnx.nchwc import SIZE as BLOCK
from burn.importers.onnx.nchwc import Blocked, block_size, keeps_layout
from burn.importers.onnx.node import BUILDERS, Node, onnx_op
from burn.importers.onnx.opening import Opening
from burn.importers.onnx.ops import load_builders
from burn.importers.onnx.order import initializer_names, nodes_between
from burn.importers.onnx.tensors import ELEMENT_TYPES, element_name
from burn.importers.opened import Opened

__all__ = ["BUILDERS", "Node", "import_onnx", "import_opened", "onnx_op"]

MOST_NESTED = 8
"""Derivatives of derivatives in one graph; more would be some that depend on each other."""

SMALL = 16
"""Constants of up to so many elements are written in the program; larger ones go to the weight store."""

SUMMARY = "the model cannot be imported"


class _Problems(Problems):
    """Problems of a model, and how far its import came before the first of a node's."""

    def __init__(self, importer: Importer) -> None:
        super().__init__(SUMMARY)
        self.importer = importer
        self.failed_at: int | None = None  # the node that the first problem is of

    def add(self, problem: Problem) -> None:
        self.failed_at = self.importer.count if self.failed_at is None else self.failed_at
        super().add(problem)


def import_onnx(source: Source, *, dims: Given | None = None, inputs: Collection[str] = ()) -> Program:
    """Reads an ONNX model (a path, its bytes or a ModelProto) into a program.

    dims: values for named sizes, e.g. {"batch": 1}, and what else `Given` says. inputs: initializers that the graph also lists as
    inputs, which are default values; the program has them as inputs. Raises ModelError that lists everything wrong with the
    model.
    """
    file = _checked(source)
    _check_inputs(file.proto.graph, inputs)
    return _search(lambda choices: Importer(file, dims, choices=choices, overridden=frozenset(inputs)))[1]


def _check_inputs(graph: onnx.GraphProto, given: Collection[str]) -> None:
    """Raises ModelError for names that are no default values of inputs."""
    listed = {value.name for value in graph.input}
    offered = [name for name in initializer_names(graph) if name in listed]
    wrong = [name for name in given if name not in listed]
    wrong += [name for name in given if name in listed and name not in offered]
    if wrong:
        what = f"the default values are {', '.join(offered)}" if offered else "it has no default values of inputs"
        problems = [
            Problem(f"'{name}' is an input already" if name in listed else f"'{name}' is no default value", hint=what)
            for name in wrong
        ]
        raise ModelError("the model does not offer these inputs", problems)


def import_opened(
    source: Source, training: bool, *, dims: Given | None = None, dynamic: Varying | None = None
) -> Opened:
    """As `import_onnx`, with the model's weights as inputs of the program. It is for training or inference, whatever the nodes
    say.

    `dynamic`: names for sizes that vary though the model fixes them, {"input": {0: "batch"}}. Raises ModelError."""
    file = _checked(source)
    graph = file.proto.graph
    wrong = _unknown(graph, dynamic or {})
    if wrong:
        raise ModelError("the sizes that vary are not the model's", wrong)
    importer, program = _search(lambda choices: Importer(file, dims, Opening(training, graph), dynamic, choices))
    opening = importer.opening
    assert opening is not None
    if program.input_containers or program.output_containers:
        raise ModelError("the model cannot be trained", ["it takes or gives sequences or optionals"])
    return opening.opened(program)


def _search(make: Callable[[Choices], Importer]) -> tuple[Importer, Program]:
    """An import with choices that work, and the importer that made it. Raises the ModelError of the import that came furthest."""
    choices = Choices()

    def build() -> tuple[Importer, Program | ModelError]:
        importer = make(choices)
        try:
            return importer, importer.run()
        except ModelError as error:
            return importer, error

    def progress(built: tuple[Importer, Program | ModelError]) -> Progress | None:
        importer = built[0]
        settled = not importer.problems and not (importer.other_ranks and choices.made)
        return None if settled else importer.progress()

    importer, result = search(choices, build, progress)
    if isinstance(result, ModelError):
        raise result
    return importer, result


def _checked(source: Source) -> OnnxFile:
    load_builders()
    file = read_model(source)
    check_model(file, BUILDERS.keys() | custom.known())
    inline_functions(file.proto)
    return file


class Importer:
    """The state of one import. opening: what is noted of weights that are to be inputs. overridden: initializers that are inputs
    of the program."""

    def __init__(
        self,
        file: OnnxFile,
        dims: Given | None = None,
        opening: Opening | None = None,
        dynamic: Varying | None = None,
        choices: Choices | None = None,
        overridden: Collection[str] = (),
    ) -> None:
        self.file = file
        self.overridden = overridden
        self.opening = opening
        self.choices = choices or Choices()
        self.opsets = opsets(file.proto.opset_import)
        self.names = SizeNames(file.proto.graph, dims, dynamic)
        self.problems = _Problems(self)
        self._contents: dict[ir.Value, Content] = {}
        self._constants: dict[ir.Value, Weight] = {}
        self._scope: ChainMap[str, Any] = ChainMap()
        self._initializers: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {}
        self.discarded: list[ir.Operation] = []  # they own values that are keys of these dictionaries
        self._last_constant: ir.Operation | None = None
        self.count = 0  # of nodes that were begun
        self.other_ranks = 0  # outputs whose rank is not the declared one
        self.output_names = frozenset(output.name for output in file.proto.graph.output)
        self.declared_shapes = dict(_declared(file.proto.graph))
        self._graphs: list[Sequence[onnx.NodeProto]] = []  # the nodes being built, the outermost graph's first
        self._building_again: list[str] = []  # the names that are computed once more, each for the one after it
        self._defaults: list[str] = []  # initializers that are also inputs, and compiled in
        self._containers: dict[int, Container] = {}  # of inputs that are sequences or optionals

    def run(self) -> Program:
        graph = self.file.proto.graph
        self._note_initializers(graph)
        inputs = self._input_types(graph)
        self.problems.raise_any()
        self.program = Program.create(inputs)
        self._scope.update(zip((name for name, _ in inputs), self.program.inputs, strict=True))
        self.program.input_containers = self._containers
        self.program.defaults = tuple(self._defaults)
        for i, container in self._containers.items():
            self._scope[inputs[i][0]] = RunList(self.program.inputs[i], container)
        with self.program.building():
            self._build_nodes(graph.node)
            outputs = [(o.name, self._output(o, i)) for i, o in enumerate(graph.output)]
            outputs += self.opening.outputs() if self.opening is not None else []
        if self.names.unused:
            given = ", ".join(sorted(self.names.unused))
            self.problems.found.append(Problem(f"sizes were given for {given}, which no input's dimension is called"))
        self.problems.raise_any()
        self.program.finish(outputs)
        erase_dead(self.program.block)
        return self.program

    def _output(self, output: onnx.ValueInfoProto, index: int) -> Any:
        try:
            value = self._lookup(output.name)
        except Skipped:
            return FAILED
        if isinstance(value, Maps):
            self.program.output_keys[index] = value.keys
            return value.value
        declared = container_of(output.type)
        if isinstance(value, ir.Value) and declared is None:
            shape = self.declared_shapes.get(output.name)
            self.other_ranks += shape is not None and len(shape.dim) != type_of(value).rank
            return value
        items = run_list(value, declared)
        if items is None:
            self.problems.found.append(
                Problem(
                    f"output '{output.name}' is a sequence or an optional whose element type the model does not declare"
                )
            )
            return FAILED
        self.program.output_containers[index] = items.container
        return items.value

    # ---- inputs and constants ----------------------------------------------------------------------------------------
    def _input_types(self, graph: onnx.GraphProto) -> list[tuple[str, TensorType]]:
        types = []
        for value in graph.input:
            initializer = self._initializers.get(value.name)
            if initializer is not None and value.name not in self.overridden:
                self._defaults.append(value.name)  # before IR version 4 every initializer was also an input
                continue
            kind = value.type.WhichOneof("value")
            tensor = value.type.tensor_type
            if (container := container_of(value.type)) is not None:
                self._containers[len(types)] = container
                types.append((value.name, LIST))
                continue
            if kind != "tensor_type":
                text = kind.removesuffix("_type").replace("_", " ") if kind else "nothing"
                problem = f"input '{value.name}' is a {text}; only tensors, and sequences and optionals of them, can be"
                self.problems.found.append(Problem(problem))
            elif tensor.elem_type not in ELEMENT_TYPES:
                text = f"input '{value.name}' has the unsupported element type {element_name(tensor.elem_type)}"
                self.problems.found.append(Problem(text))
            elif initializer is not None and not tensor.HasField("shape"):
                types.append((value.name, TensorType(ELEMENT_TYPES[tensor.elem_type], tuple(initializer.dims))))
            elif not tensor.HasField("shape"):
                shape = self.names.shape_of(value.name)
                if shape is None:
                    hint = f"give it its sizes: burn.load(..., dims={{'{value.name}': ('batch', 3, None)}})"
                    self.problems.found.append(Problem(f"the rank of input '{value.name}' is not known", hint=hint))
                else:
                    types.append((value.name, TensorType(ELEMENT_TYPES[tensor.elem_type], tuple(shape))))
            else:
                shape = [self.names.of_input(value.name, i, d) for i, d in enumerate(tensor.shape.dim)]
                types.append((value.name, TensorType(ELEMENT_TYPES[tensor.elem_type], tuple(shape))))
        return types

    def _note_initializers(self, graph: onnx.GraphProto) -> None:
        self._initializers.update({t.name: t for t in graph.initializer})
        self._initializers.update({t.values.name: t for t in graph.sparse_initializer})

    @cached_property
    def nchwc_block(self) -> int:
        """The channels of a block of com.microsoft.nchwc. Raises ModelError where neither file nor caller says it."""
        return block_size(self.file.proto.graph, self.names.given(BLOCK))

    def _lookup(self, name: str) -> Any:
        """A name's value, with the elements of a blocked tensor in the order in which the model has them."""
        value = self._named(name)
        return value.stored() if isinstance(value, Blocked) else value

    def _named(self, name: str) -> Any:
        """A name's value; an initializer becomes a constant when it is first asked for."""
        if name not in self._scope:
            tensor = self._initializers.get(name)
            if tensor is None:
                self.problems.found.append(Problem(f"'{name}' is not defined"))
                self._scope[name] = FAILED
            else:
                try:
                    sparse = isinstance(tensor, onnx.SparseTensorProto)
                    weight = self.file.tensors.sparse(tensor) if sparse else self.file.tensors.weight(tensor)
                    self._scope.maps[-1][name] = self.initializer(weight, name)
                except BurnError as error:
                    self.problems.add_error(error)
                    self._scope[name] = FAILED
        value = self._scope[name]
        if value is FAILED:
            raise Skipped
        return value

    def initializer(self, weight: Weight, name: str) -> ir.Value:
        """A weight of the model as a constant, or as an input of the program if weights are inputs."""
        if self.opening is None or not self.opening.takes(weight):
            return self.constant_tensor(weight, name)
        return self._known_as(self.opening.open(self.program, weight, name), weight, _content_of(weight))

    def constant_tensor(self, weight: Weight, hint: str) -> ir.Value:
        """A constant, at the beginning of the program so that every region sees it."""
        content = _content_of(weight)
        with self._among_constants(hint):
            if content is not None and content.array.size <= SMALL:
                value = materialise(content)
            else:
                key = self.program.weights.add(weight, hint)
                value = ops.weight(key=key, shape=weight.shape, dtype=weight.dtype)
            self._last_constant = value.owner
        return self._known_as(value, weight, content)

    def _known_as(self, value: ir.Value, weight: Weight, content: Content | None) -> ir.Value:
        if content is not None:
            self._contents[value] = content
        self._constants[value] = weight
        return value

    @contextmanager
    def _among_constants(self, hint: str) -> Iterator[None]:
        last = self._last_constant
        point = ir.InsertionPoint.at_block_begin(self.program.block) if last is None else ir.InsertionPoint.after(last)
        with context(), ir.Location.name(hint or "constant"), point:
            yield

    def array(self, array: np.ndarray, hint: str) -> ir.Value:
        return self.constant_tensor(array_weight(array), hint)

    def known(self, content: Content) -> ir.Value:
        """A tensor of known elements, at the insertion point."""
        value = materialise(content)
        self._contents[value] = content
        return value

    def content(self, value: ir.Value) -> Content | None:
        return self._contents.get(value)

    def constant(self, value: ir.Value) -> np.ndarray | None:
        if value in self._contents:
            return self._contents[value].numbers()
        return self._constants[value].array() if value in self._constants else None

    # ---- nodes -------------------------------------------------------------------------------------------------------
    def _build_nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        self._graphs.append(nodes)
        for node in nodes:
            self.count += 1
            try:
                self._build_node(node)
            except Skipped:
                self._scope.update({name: FAILED for name in node.output if name})
        self._graphs.pop()

    def build_again(self, name: str, given: Mapping[str, ir.Value], node: Node) -> Any:
        """Rebuilds the tensor `name` with other values for some names of the model."""
        nodes = [proto for graph in self._graphs for proto in graph]
        if name not in self._scope and name not in given and not any(name in proto.output for proto in nodes):
            node.fail(f"there is no tensor '{name}'")
        between = nodes_between(nodes, given, name, self._scope)
        if node.proto in between or len(self._building_again) > MOST_NESTED:
            node.fail(f"'{name}' depends on this node's own result")
        outer = self._scope
        self._scope = outer.new_child(dict(given))
        self._building_again.append(name)
        try:
            self._build_nodes(between)
            return self._lookup(name)
        finally:
            self._scope = outer
            self._building_again.pop()

    def _build_node(self, proto: onnx.NodeProto) -> None:
        name = proto.name or f"{proto.op_type}_{self.count}/{next((o for o in proto.output if o), '')}"
        domain, inputs = domain_name(proto.domain), [self._named(i) if i else None for i in proto.input]
        node = Node.of(proto, self, domain, opset_of(proto, self.opsets), name, inputs)
        if (modules := modules_of(proto)) is not None:
            self.program.node_modules[name] = modules
        with self.problems.building(node), ir.Location.name(name):
            results = self._results(node) if domain == BLOCKED else self._through_blocks(node)
        for output, value in zip(proto.output, results, strict=False):
            if output:
                self._scope[output] = value

    def _through_blocks(self, node: Node) -> list[Any]:
        """The results of a node that may have blocked operands, but whose builder does not support them."""
        inputs = list(node.inputs.peek())
        blocks = {v.block for v in inputs if isinstance(v, Blocked)}
        if not blocks:
            return self._results(node)
        keeps = keeps_layout(node.proto, inputs)
        inputs = [(v.value if keeps else v.stored()) if isinstance(v, Blocked) else v for v in inputs]
        results = self._results(Node.of(node.proto, self, node.domain, node.opset, node.name, inputs))
        return [Blocked(r, *blocks) for r in results] if keeps else results

    def _results(self, node: Node) -> list[Any]:
        contents = evaluate(node)
        if contents is not None and node.unread():
            contents = None  # the file has attributes or operands that the rule ignores
        learned = self.opening is not None and any(v in self.opening.derived for v in _values(node.inputs.peek()))
        if contents is not None and not learned:
            try:
                return [self.known(c) for c in contents]
            except Unknown:
                pass
        node.reads.clear()
        builder = BUILDERS.get((node.domain, node.op)) or custom.builder(node)
        results = self._expand(node) if builder is None else as_list(builder(node))
        self.problems.found += node.unread()  # not `add`: the node has results, so the import came further than here
        missing = [o for i, o in enumerate(node.outputs) if o and (i >= len(results) or results[i] is None)]
        if missing:
            node.fail(f"output {', '.join(map(repr, missing))} is not supported")
        for value, content in zip(results, contents or (), strict=False):
            self._contents[value] = content
            if learned and self.opening is not None:
                self.opening.derived.add(value)
        return results

    def _expand(self, node: Node) -> list[Any]:
        """The standard's own definition of an operator in terms of others, for operators without a builder."""
        types = [_type_proto(type_of(v)) if isinstance(v, ir.Value) else None for v in node.inputs]
        node.no_effect(*(a.name for a in node.proto.attribute), because="the definition's own nodes refer to them")
        nodes = expand(node.proto, node.opset, types, self.opsets)
        if nodes is None:
            node.fail("this operator is not supported")
        before = len(self.problems)
        self._build_nodes(nodes)
        if len(self.problems) > before:
            raise Skipped
        return [self._scope[name] if name else None for name in node.outputs]

    def progress(self) -> Progress:
        """How far an import came that has problems, or outputs of other ranks than the model declares."""
        failed_at = self.problems.failed_at
        reached = failed_at if failed_at is not None else self.count + 1
        return (reached, -len(self.problems) - self.other_ranks)

    # ---- branches ----------------------------------------------------------------------------------------------------
    def attempt(self, build: Callable[[], Any]) -> tuple[Any, list[Problem]]:
        """Returns the result of `build`, or None and its problems. They are not the model's problems if it need not be built.
        Builders in it that have options (`pick`) are tried with other options."""

        def once() -> tuple[Any, list[Problem], Progress]:
            start, kept = self.count, self.problems
            self.problems = _Problems(self)
            try:
                value = build()
            except Skipped:
                value = FAILED
            except BurnError as error:
                self.problems.add_error(error)
                value = FAILED
            found, (reached, count) = self.problems.found, self.progress()
            self.problems = kept
            return value, found, (reached - start, count)

        value, found, _ = search(self.choices, once, lambda tried: tried[2] if tried[1] else None)
        if value is FAILED and not found:  # it depends on something around it that could not be built
            raise Skipped
        return (None if found else value), found

    # ---- subgraphs ---------------------------------------------------------------------------------------------------
    def build_subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Any], node: Node) -> list[Any]:
        """Builds a graph's nodes at the insertion point with its own names, the outer ones visible; returns its
        outputs."""
        if len(graph.input) != len(inputs):
            node.fail(f"its graph '{graph.name}' takes {len(graph.input)} inputs, not {len(inputs)}")
        outer, outer_initializers = self._scope, self._initializers
        self._scope = outer.new_child({v.name: value for v, value in zip(graph.input, inputs, strict=True)})
        try:
            self._initializers = dict(outer_initializers)
            for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer)):
                self._initializers.pop(tensor.name, None)
            self._define_initializers(graph)
            self._build_nodes(graph.node)
            return [self._lookup(o.name) for o in graph.output]
        finally:
            self._scope, self._initializers = outer, outer_initializers

    def _define_initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.name not in self._scope.maps[0]:
                self._scope[tensor.name] = self.initializer(self.file.tensors.weight(tensor), tensor.name)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self._scope[name] = self.initializer(self.file.tensors.sparse(sparse), name)


def _unknown(graph: onnx.GraphProto, dynamic: Varying) -> list[str]:
    """Problems of `dynamic`: inputs and axes that the model does not have."""
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in graph.input}
    wrong = [f"there is no input '{name}'; there are {', '.join(ranks)}" for name in dynamic if name not in ranks]
    axes = [(name, axis) for name, own in dynamic.items() for axis in own if name in ranks]
    return wrong + [f"'{name}' has no axis {axis}" for name, axis in axes if not 0 <= axis < ranks[name]]


def _declared(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorShapeProto]]:
    """The declared shapes of intermediate values and outputs, also in subgraphs."""
    for value in (*graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            yield value.name, value.type.tensor_type.shape
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") or attribute.graphs else ():
                yield from _declared(inner)


def _content_of(weight: Weight) -> Content | None:
    """The elements of a small weight, as the importer reckons with them."""
    if not wanted(weight.dtype, math.prod(weight.shape)):
        return None
    return Content.of_numbers(weight.dtype, weight.array())


def _values(inputs: Iterable[Any]) -> Iterator[ir.Value]:
    return (value for value in inputs if isinstance(value, ir.Value))


def _type_proto(type_: TensorType) -> onnx.TypeProto:
    """A type as ONNX writes it; symbolic sizes are left open."""
    code = next(code for code, name in ELEMENT_TYPES.items() if name == type_.dtype)
    return onnx.helper.make_tensor_type_proto(code, [d if isinstance(d, int) else None for d in type_.shape])
