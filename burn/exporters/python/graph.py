"""A program as plain Python objects, which are easier to take apart than IR. Enter at `read`.

Reading drops what no one writes by hand: ops without a use, ops that change nothing, one op built twice.
Equal constants stay separate: each may belong to a layer of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, symbols
from burn.dialect.locations import source_name
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast
from burn.dialect.program import Program
from burn.dialect.reduction import ArgReduce, Reduce
from burn.dialect.shape import BroadcastTo, Concat, Constant, Full, Reshape, Slice, Transpose
from burn.dialect.shape import Weight as WeightOp
from burn.dialect.types import TensorType, numpy_dtype, type_of
from burn.dialect.weights import Weight, WeightStore, array_weight
from burn.errors import CompileError


@dataclass(eq=False)
class Node:
    """One op. `op` is its name in the dialect, or one of

        input, argument   a value from outside of the list of nodes, of the program or of a region
        random_key        without operands: the next key of the run's random state, which is no input here; the loops around are
                          known where it stands
        constant          a tensor written in the program (`weight` holds it) or in the weight store
        nn.<class>        a layer, see layers.py: `constants` are its parameters by role, `attrs` its constructor's
                          arguments, of which those that are as in `defaults` go without saying
        call              a module of the model's own, see blocks.py

    operands: as the op's builder takes them: values, None, lists of values."""

    op: str
    operands: list[Any] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    types: list[TensorType] = field(default_factory=list)
    source: str = ""
    scope: tuple[str, ...] = ()  # the module of the source model that the op stands in, where that is known
    named: bool = False  # the scope of a layer ends in the layer's own name (layers/naming.py)
    pure: bool = True
    regions: list[Region] = field(default_factory=list)
    weight: Weight | None = None
    constants: dict[str, Value] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    flops: Dim = 0  # `Op.flops`

    @property
    def values(self) -> list[Value]:
        """The operands without their grouping."""
        flat: list[Value] = []
        for operand in self.operands:
            flat += operand if isinstance(operand, list) else [] if operand is None else [operand]
        return flat

    @property
    def results(self) -> list[Value]:
        return [Value(self, i) for i in range(len(self.types))]

    @property
    def result(self) -> Value:
        return Value(self, 0)


@dataclass(frozen=True)
class Value:
    """One result of a node."""

    node: Node
    index: int = 0

    @property
    def type(self) -> TensorType:
        return self.node.types[self.index]

    @property
    def array(self) -> np.ndarray | None:
        """The elements of a constant that is written in the program."""
        weight = self.node.weight
        return weight.array() if weight is not None and self.node.op == "constant" else None


@dataclass
class Region:
    """A region of an op: nodes with their own arguments, which see the values around them."""

    arguments: list[Node]
    nodes: list[Node]
    results: list[Value]


@dataclass
class Graph:
    """A program: its inputs, its nodes in order (constants are not among them), its outputs."""

    inputs: list[Node]
    nodes: list[Node]
    outputs: list[Value]
    input_names: list[str]
    output_names: list[str]
    weights: WeightStore
    classes: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Maps the path of a module of the source model to the qualified name of its class, if the file says it."""
    containers: set[tuple[str, ...]] = field(default_factory=set)
    """The paths of modules of the source model that are nn.Sequential."""

    def uses(self) -> Counter[Value]:
        """How often each value is used, by nodes at any depth and as output."""
        counts: Counter[Value] = Counter(self.outputs)
        for node in walk(self.nodes):
            counts.update(node.values)
            counts.update(node.constants.values())
            for region in node.regions:
                counts.update(region.results)
        return counts


def new_sizes(node: Node) -> list[str]:
    """The sizes that a node defines, besides those of the nodes in its regions."""
    names = [node.attrs[key] for key in ("symbol", "count") if isinstance(node.attrs.get(key), str)]
    return names + list(node.attrs.get("symbols", ()))


def used_sizes(node: Node) -> set[str]:
    """The names of all sizes in the operands and results of a node and of the nodes in its regions."""
    dims: list[Any] = []
    for each in walk([node]):
        dims += [d for value in each.values for d in value.type.shape]
        dims += [d for a in each.attrs.values() for d in (a if isinstance(a, tuple) else (a,))]
        if each is not node:
            dims += [d for type_ in each.types for d in type_.shape]
    return {name for dim in dims if isinstance(dim, Expr) for name in symbols(dim)}


def walk(nodes: list[Node]) -> Iterator[Node]:
    """The nodes and those in their regions."""
    for node in nodes:
        yield node
        for region in node.regions:
            yield from walk(region.nodes)


def read(program: Program, parameters: Mapping[str, Weight] | None = None) -> Graph:
    """parameters: weights that are not in the program's store, by key (tidy.py). Raises CompileError for a program that has
    fused groups."""
    return _Reader(program, parameters or {}).graph()


class _Reader:
    def __init__(self, program: Program, parameters: Mapping[str, Weight]) -> None:
        self.program, self.parameters = program, parameters
        self.values: dict[ir.Value, Value] = {}
        self.known: list[dict[Any, Node]] = [{}]  # what has been computed, by region from the outermost
        self.classes: dict[tuple[str, ...], str] = {}
        self.containers: set[tuple[str, ...]] = set()
        self.unplaced: set[Node] = set()  # nodes without modules in a program whose other nodes have them

    def graph(self) -> Graph:
        program = self.program
        given = program.inputs[:-1] if program.random_state else program.inputs
        inputs = [Node("input", types=[type_of(v)]) for v in given]
        self.values.update(zip(given, (n.result for n in inputs), strict=True))
        nodes, outputs = self._block(program.block)
        if self.classes:
            _fill_scopes(nodes, self.unplaced)
        return Graph(
            inputs,
            live(nodes, outputs),
            outputs,
            list(program.input_names)[: len(inputs)],
            list(program.output_names),
            program.weights,
            self.classes,
            self.containers,
        )

    def _scope(self, source: str) -> tuple[str, ...]:
        """The module that a node of the source model is in; () if it is unknown."""
        modules = self.program.node_modules.get(source)
        if modules is None:
            return () if self.program.node_modules else scope_of(source, self.containers)
        paths = [tuple(filter(None, m.path.split("."))) for m in modules]
        self.classes.update(zip(paths, (m.cls for m in modules), strict=True))
        self.containers.update(p for p, m in zip(paths, modules, strict=True) if p and m.cls.endswith(".Sequential"))
        return paths[-1] if paths else ()

    def _block(self, block: ir.Block) -> tuple[list[Node], list[Value]]:
        nodes: list[Node] = []
        operations = list(block.operations)
        for operation in operations[:-1]:
            self._op(operation.opview, nodes)
        return nodes, [self.values[v] for v in operations[-1].operation.operands]

    def _op(self, op: Any, nodes: list[Node]) -> None:
        if not isinstance(op, Op) or isinstance(op, Group):
            raise CompileError(f"no source can be written for {op.operation.name}")
        results = list(op.operation.results)
        key = op.attrs["key"] if isinstance(op, WeightOp) else ""
        weight = self.parameters.get(key) or weight_of(op, self.program.weights)
        if weight is not None:
            node = Node("constant", types=[type_of(results[0])], source=source_name(op), weight=weight)
            self.values[results[0]] = node.result
            return
        if op.OP_NAME == "random_key" and self.program.random_state and op.state == self.program.inputs[-1]:
            drawn = Node("random_key", types=[type_of(results[0])], source=source_name(op), pure=False)
            self.values[results[0]] = drawn.result
            nodes.append(drawn)
            return
        operands = [self._operand(a) for a in op.args]
        if isinstance(op, Reshape) and operands[0].node.op == "reshape":
            operands = list(operands[0].node.operands)  # the shape between the two is of no account
        same = _unchanged(op, operands)
        if same is not None:
            self.values[results[0]] = same
            return
        types = [type_of(r) for r in results]
        source = source_name(op)
        node = Node(op.OP_NAME, operands, _attributes(op, operands), types, source, self._scope(source), pure=op.PURE)
        if source not in self.program.node_modules:
            self.unplaced.add(node)
        node.flops = op.flops()
        if node.op == "check_size":
            node.scope = ()  # one check for all that need it
        if op.REGIONS:
            node.regions = [self._region(r) for r in op.operation.regions]
        elif node.pure or node.op == "check_size":
            key = (node.op, tuple(map(_hashable, node.operands)), _hashable(node.attrs), tuple(types))
            before = next((known[key] for known in self.known if key in known), None)
            if before is not None:
                self.values.update(zip(results, before.results, strict=True))
                return
            self.known[-1][key] = node
        self.values.update(zip(results, node.results, strict=True))
        nodes.append(node)

    def _region(self, region: ir.Region) -> Region:
        block = region.blocks[0]
        arguments = [Node("argument", types=[type_of(a)]) for a in block.arguments]
        self.values.update(zip(block.arguments, (n.result for n in arguments), strict=True))
        self.known.append({})
        nodes, results = self._block(block)
        self.known.pop()
        return Region(arguments, live(nodes, results), results)

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, list):
            return [self.values[v] for v in operand]
        return None if operand is None else self.values[operand]


def weight_of(op: Op, weights: WeightStore) -> Weight | None:
    """The elements of a constant; None for other ops, and for what is better written out (`full`)."""
    if isinstance(op, WeightOp):
        return weights.weight(op.attrs["key"])
    if not isinstance(op, Constant | Full) or not all(isinstance(d, int) for d in op.attrs["shape"]):
        return None
    attrs = op.attrs
    if isinstance(op, Full) and attrs["shape"]:
        return None
    elements = (
        (attrs["values"] if isinstance(op, Constant) else [attrs["value"]])
        if attrs["bits"] is None
        else (attrs["bits"] if isinstance(op, Constant) else [attrs["bits"]])
    )
    kind = np.int64 if attrs["bits"] is not None else np.float64
    dtype = numpy_dtype(attrs["dtype"])
    return array_weight(np.array(elements, kind).astype(dtype).reshape(attrs["shape"]))


def _attributes(op: Op, operands: list[Any]) -> dict[str, Any]:
    """An op's attributes, its axes counted from the first."""
    attrs = op.attrs
    first = operands[0] if operands else None
    first = first[0] if isinstance(first, list) and first else first
    rank = first.type.rank if isinstance(first, Value) and isinstance(first.type, TensorType) else 0
    for name, value in attrs.items():
        if name == "axis" and isinstance(value, int):
            attrs[name] = value + rank if value < 0 else value
        elif name == "axes":
            axes = [a + rank if a < 0 else a for a in value]
            attrs[name] = tuple(sorted(axes) if isinstance(op, Reduce) else axes)
    if rank == 0 and isinstance(op, ArgReduce):
        attrs["axis"] = 0
    return attrs


def _unchanged(op: Op, operands: list[Any]) -> Value | None:
    """The operand that an op passes on as it is."""
    if isinstance(op, Concat):
        return operands[0][0] if len(operands[0]) == 1 else None
    if not isinstance(op, Reshape | Cast | Transpose | BroadcastTo | Slice) or operands[0].type != type_of(op.result):
        return None
    if isinstance(op, Transpose):
        return operands[0] if list(op.attrs["permutation"]) == sorted(op.attrs["permutation"]) else None
    if isinstance(op, Slice):
        steps = zip(op.attrs["steps"], operands[0].type.shape, strict=True)
        whole = not any(op.attrs["starts"]) and all(step == 1 or dim in (0, 1) for step, dim in steps)
        return operands[0] if whole else None
    return operands[0]


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def scope_of(source: str, containers: set[tuple[str, ...]] | None = None) -> tuple[str, ...]:
    """The module that a node's name says it stands in: ("encoder", "layer", "0") of "/encoder/encoder.layer.0/MatMul_3".

    containers: receives the paths of nn.Sequential, which is named before its modules ("/head/head.0/Relu")."""
    if "/" not in source.strip("/"):
        return ()
    parts: list[str] = []
    for part in source.strip("/").split("/")[:-1]:
        words = part.split(".")
        if len(words) == 2 and words[1].isdigit() and parts and parts[-1] == words[0]:
            words = words[1:]  # the module that holds it has been named
            if containers is not None:
                containers.add(tuple(parts))
        parts += words
    return tuple(parts)


def _fill_scopes(nodes: list[Node], unplaced: set[Node]) -> None:
    """Gives a node that an exporter made without a scope the innermost module around its operands and its users."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for value in node.values:
            users.setdefault(value.node, []).append(node)
    for node in nodes:
        if node in unplaced:
            beside = [value.node for value in node.values] + users.get(node, [])
            node.scope = common_scope([n.scope for n in beside if n.scope])


def common_scope(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The common prefix of paths; () for no path."""
    first = paths[0] if paths else ()
    for i, part in enumerate(first):
        if any(len(p) <= i or p[i] != part for p in paths):
            return first[:i]
    return first


def live(nodes: list[Node], results: list[Value]) -> list[Node]:
    """The nodes that results or effects need."""
    needed = {value.node for value in results}
    sizes = {name for value in results for dim in value.type.shape for name in symbols(dim)}
    kept = []
    for node in reversed(nodes):
        if node in needed or not (node.pure or node.op == "random_key") or not sizes.isdisjoint(new_sizes(node)):
            kept.append(node)
            sizes |= used_sizes(node)
            needed.update(value.node for value in node.values)
            for region in node.regions:
                needed.update(v.node for inner in walk(region.nodes) for v in inner.values)
                needed.update(v.node for v in region.results)
                needed.update(v.node for inner in walk(region.nodes) for r in inner.regions for v in r.results)
    return kept[::-1]


def replace(graph: Graph, replaced: dict[Value, Value]) -> None:
    """Puts values in the place of others, wherever these are used."""

    def new(operand: Any) -> Any:
        if isinstance(operand, list):
            return [replaced.get(v, v) for v in operand]
        return replaced.get(operand, operand)

    for node in walk(graph.nodes):
        node.operands = [new(o) for o in node.operands]
        for region in node.regions:
            region.results = [replaced.get(v, v) for v in region.results]
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]
