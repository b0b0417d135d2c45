"""A program becomes an ONNX graph: composites that ONNX lacks are decomposed in a copy, then op after op is written.

Enter at `export`. Ops that cannot be written are collected, and raised as one ModelError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import onnx
from burn.dialect.control import yielded
from burn.dialect.dims import TYPICAL
from burn.dialect.locations import source_name
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op, site
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.dialect.types import PARTS, TensorType, type_of
from burn.dialect.weights import Weight
from burn.errors import ModelError, Problem, TypeMismatch
from burn.exporters.onnx.emitters import EMITTERS, Site, emitter_for
from burn.exporters.onnx.graph import NEWEST, GraphWriter, Refused, Scope
from burn.exporters.onnx.sizes import Sizes
from burn.exporters.onnx.tensors import to_proto
from burn.passes.decompose import expand
from burn.passes.lower_complex import LowerComplex
from onnx import helper

OLDEST = 18
DEFAULT_OPSET = 21
"""The opset that recent runtimes support; newer opsets are an option."""

FAMILIES = (
    "fused", "pointwise", "shape", "indexing", "reduction", "window", "contraction", "library", "control", "activation",
    "normalization", "attention", "recurrent", "resize", "quantize", "signal", "custom",
)  # fmt: skip
"""The modules of emitters, in `ops/`."""

ML = "ai.onnx.ml"

SUMMARY = "the program cannot be written as ONNX"


def export(program: Program, opset: int | None = None, name: str = "main") -> onnx.ModelProto:
    """The program as an ONNX model with its weights inside; `burn.exporters.onnx.write` also keeps them beside it.

    opset: of the default domain, 18 to the newest that the installed `onnx` has; 21 by default. The program is not changed.
    Raises ModelError listing every op that cannot be written."""
    graph, weights = build(program, opset, name)
    graph.graph.initializer.extend(to_proto(key, weight) for key, weight in weights.items())
    return graph


def build(program: Program, opset: int | None = None, name: str = "main") -> tuple[onnx.ModelProto, dict[str, Weight]]:
    """The model without its weights, and these by name."""
    opset = DEFAULT_OPSET if opset is None else opset
    if not isinstance(opset, int) or isinstance(opset, bool):
        raise TypeMismatch("an opset is a number", [f"not {opset!r}"])
    if not OLDEST <= opset <= NEWEST:
        raise ModelError(f"opset {opset} cannot be written", [f"there are {OLDEST} to {NEWEST}"])
    if program.input_containers or program.output_containers:
        raise ModelError(SUMMARY, ["sequences and optionals as inputs or outputs are not supported"])
    for family in FAMILIES:
        import_module(f"burn.exporters.onnx.ops.{family}")
    with context():
        return Exporter(program.copy(), opset, name).run()


class Exporter:
    """The state of one export."""

    def __init__(self, program: Program, opset: int, name: str) -> None:
        self.program, self.opset, self.name = program, opset, name
        self.graph = GraphWriter(opset)
        self.sizes = Sizes(self.graph)
        self.names: dict[ir.Value, str | None] = {}  # None: could not be written, and a problem says so
        self.problems: list[Problem] = []

    def run(self) -> tuple[onnx.ModelProto, dict[str, Weight]]:
        program = self.program
        if not any(t.dtype in PARTS for t in (*program.input_types, *program.output_types)):
            LowerComplex().run(program)  # ONNX has no ops for complex tensors
        self.decompose(program.block)
        erase_dead(program.block)
        self._check_names()
        for name in (*program.input_names, *program.output_names):
            self.graph.reserve(name)
        inputs = list(zip(program.input_names, program.input_types, strict=True))
        given = [self._value_info(name, type_, f"input '{name}'") for name, type_ in inputs]
        for (name, type_), value in zip(inputs, program.inputs, strict=True):
            self.names[value] = name
            self.graph.dtypes[name] = type_.dtype
        self.sizes.of_inputs(inputs)
        self.block(program.block)
        outputs = [
            self._value_info(name, type_, f"output '{name}'")
            for name, type_ in zip(program.output_names, program.output_types, strict=True)
        ]
        if self.problems:
            raise ModelError(SUMMARY, dict.fromkeys(self.problems))
        self._name_outputs()
        imports = [helper.make_opsetid("", self.opset)]
        if program.output_keys:
            outputs = self._with_maps(outputs)
            imports.append(helper.make_opsetid(ML, 1))
        imports += [helper.make_opsetid(domain, 1) for domain in sorted(self.graph.domains)]
        nodes = prune(self.graph.scopes[0].nodes, set(program.output_names))
        used = used_names(nodes)
        weights = {name: weight for name, weight in self.graph.initializers.items() if name in used}
        graph = helper.make_graph(nodes, self.name, given, outputs)
        model = helper.make_model(
            graph,
            producer_name="burn",
            opset_imports=imports,
            ir_version=helper.find_min_ir_version_for([helper.make_opsetid("", self.opset)]),
        )
        return model, weights

    def _check_names(self) -> None:
        """ONNX has one space of names: an output that is not an input itself needs one of its own."""
        program = self.program
        inputs = dict(zip(program.input_names, program.inputs, strict=True))
        hint = "give the outputs other names"
        for i, (name, value) in enumerate(zip(program.output_names, program.outputs, strict=True)):
            if name in program.output_names[:i]:
                self.problems.append(Problem(f"two outputs are called '{name}'", hint=hint))
            elif name in inputs and inputs[name] != value:
                self.problems.append(Problem(f"an input and an output are called '{name}'", hint=hint))
            elif not name:
                self.problems.append(Problem(f"output {i} has no name", hint=hint))

    def _value_info(self, name: str, type_: TensorType, what: str) -> Any:
        try:
            return self.graph.value_info(name, type_)
        except Refused as refused:
            self.problems.append(Problem(f"{what}: {refused.reason}"))
            return None

    # ---- before ------------------------------------------------------------------------------------------------------
    def decompose(self, block: ir.Block) -> None:
        """Expands composites that no emitter takes, in rounds: an expansion may hold composites of its own."""
        while found := [o.opview for o in block.operations if self._expands(o.opview)]:
            for op in found:
                expand(op)
        for operation in block.operations:
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self.decompose(inner)

    def _expands(self, op: Any) -> bool:
        return isinstance(op, Op) and op.decompose is not None and emitter_for(op, self.opset) is None

    # ---- ops ---------------------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        """Writes a block's ops, but for its terminator, into the present scope."""
        operations = [operation.opview for operation in block.operations][:-1]
        absorbed: set[ir.Value] = set()
        for op in reversed(operations):  # the last of a chain takes what it can
            emitter = emitter_for(op, self.opset) if isinstance(op, Op) else None
            taken = any(r in absorbed for r in op.operation.results)
            if emitter is not None and emitter.absorbs is not None and not taken:
                absorbed.update(r for other in emitter.absorbs(op) for r in other.operation.results)
        for op in operations:
            if not any(r in absorbed for r in op.operation.results):
                self.op(op)

    def op(self, op: Any) -> None:
        source = source_name(op)
        results = list(op.operation.results)
        self.graph.source = "" if source in ("", "program") else source
        try:
            names = self._emit(op)
        except Refused as refused:
            self._problem(op, refused.reason, refused.hint)
            names = None
        if names is None:
            self.names.update(dict.fromkeys(results))
            return
        for value, name in zip(results, names, strict=True):
            self.names[value] = name

    def _problem(self, op: Any, reason: str, hint: str = "") -> None:
        name = op.called if op.operation.name == "burn.custom" else op.operation.name.removeprefix("burn.")
        self.problems.append(Problem(reason, node=site(op), op=name, opset=self.opset, hint=hint))

    def _emit(self, op: Any) -> list[str] | None:
        """The results' names; None where an operand could not be written."""
        if not isinstance(op, Op) or op.OP_NAME not in EMITTERS:
            raise Refused("there is no way to write this op as ONNX")
        emitter = emitter_for(op, self.opset)
        if emitter is None:
            raise Refused("there is no way to write this use of the op as ONNX")
        if any(self.names.get(v, "") is None for v in op.operation.operands):
            return None
        made = emitter.function(self.site(op))
        return [made] if isinstance(made, str) else made

    def site(self, op: Op) -> Site:
        inputs = [self._operand(a) for a in op.args]
        return Site(op, self.graph, self.sizes, inputs, self.program.weights, self.region, self.site)

    def _operand(self, operand: Any) -> Any:
        """Names as the op groups its operands; what has been absorbed has none."""
        if isinstance(operand, list):
            return [self.names.get(v) for v in operand]
        return None if operand is None else self.names.get(operand)

    # ---- subgraphs ---------------------------------------------------------------------------------------------------
    def region(self, region: ir.Region, name: str, arguments: list[str]) -> onnx.GraphProto | None:
        """A region as a subgraph whose inputs have names made from `arguments`. None where something in it failed."""
        block = region.blocks[0]
        self.sizes.enter()
        failed = len(self.problems)
        with self.graph.nested() as scope:
            given = []
            for value, hint in zip(block.arguments, arguments, strict=True):
                type_ = type_of(value)
                own = self.names[value] = self.graph.fresh(f"{name}/{hint}")
                self.graph.dtypes[own] = type_.dtype
                given.append(_loosely(own, type_))
                self.sizes.of_value(own, type_)
            self.block(block)
            source, self.graph.source = self.graph.source, name
            results, outputs = [], []
            for value in yielded(region):
                result = self.names[value]
                if result is None:
                    break
                if scope.guards and not results:
                    result = self.graph.guarded(result, scope)
                if result not in scope.made or result in results:
                    result = self.graph.node("Identity", result)
                results.append(result)
                outputs.append(_loosely(result, type_of(value)))
            self.graph.source = source
        self.sizes.leave()
        if len(self.problems) > failed or len(results) < len(yielded(region)):
            return None
        return helper.make_graph(prune(scope.nodes, set(results)), name, given, outputs)

    # ---- after -------------------------------------------------------------------------------------------------------
    def _name_outputs(self) -> None:
        """Gives the outputs their names: results of nodes are renamed, anything else goes through an Identity."""
        renamed: dict[str, str] = {}
        main = self.graph.scopes[0]
        if main.guards and self.program.outputs:
            self._guard_output(main)
        for output, value in zip(self.program.output_names, self.program.outputs, strict=True):
            name = self.names[value]
            assert name is not None
            if output == name:
                continue
            if name in main.made and name not in renamed:
                renamed[name] = output
            else:
                main.nodes.append(helper.make_node("Identity", [name], [output], name=self.graph.fresh("Identity")))
        _rename(main.nodes, renamed)

    def _with_maps(self, outputs: list[Any]) -> list[Any]:
        """The outputs; those with keys go through a ZipMap."""
        main, result = self.graph.scopes[0], list(outputs)
        for index, keys in self.program.output_keys.items():
            output = self.program.output_names[index]
            rows = self.graph.fresh(f"{output}_rows")
            _rename(main.nodes, {output: rows})
            is_text = isinstance(keys[0], str)
            labels: dict[str, Any] = {"classlabels_strings" if is_text else "classlabels_int64s": list(keys)}
            name = self.graph.fresh("ZipMap")
            main.nodes.append(helper.make_node("ZipMap", [rows], [output], name=name, domain=ML, **labels))
            key = onnx.TensorProto.STRING if is_text else onnx.TensorProto.INT64
            maps = helper.make_map_type_proto(key, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
            result[index] = helper.make_value_info(output, helper.make_sequence_type_proto(maps))
        return result

    def _guard_output(self, main: Scope) -> None:
        """Ties the checks to one output, the one of fewest elements: a runtime computes all of them."""
        sizes = [math.prod(d if isinstance(d, int) else TYPICAL for d in t.shape) for t in self.program.output_types]
        value = self.program.outputs[min(range(len(sizes)), key=lambda i: sizes[i])]
        name = self.names[value]
        assert name is not None
        self.names[value] = self.graph.guarded(name, main)


def prune(nodes: Sequence[onnx.NodeProto], needed: set[str]) -> list[onnx.NodeProto]:
    """The nodes that `needed` names depend on: sizes and counts may have been computed for ops that took others in."""
    kept, names = [], set(needed)
    for node in reversed(nodes):
        if not names.isdisjoint(node.output):
            kept.append(node)
            names |= used_names([node])
    return kept[::-1]


def used_names(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """The inputs of nodes and of the nodes in their subgraphs."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= used_names(attribute.g.node) | {value.name for value in attribute.g.output}
    return names


def _loosely(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """A typed name in a subgraph, whose sizes may differ from one run of it to the next: numbers only."""
    from burn.exporters.onnx.graph import CODES

    if type_.dtype not in CODES:
        raise Refused(f"ONNX has no element type {type_.dtype}")
    return helper.make_tensor_value_info(
        name, CODES[type_.dtype], [d if isinstance(d, int) else None for d in type_.shape]
    )


def _rename(nodes: Any, renamed: dict[str, str]) -> None:
    for node in nodes:
        for side in (node.input, node.output):
            for i, name in enumerate(side):
                if name in renamed:
                    side[i] = renamed[name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g.node, renamed)
