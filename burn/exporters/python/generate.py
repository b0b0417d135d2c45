"""Python source out of a program: `generate(program, "Model")` gives a `burn.nn` module's text and its weights.

Stages:

    tidy.py      composites recognised                        text.py      expressions, literals, sizes
    straighten.py views and formulas as a person writes them
    graph.py     the program as plain objects                 uses.py      the uses of values
    rearrange.py parameters are stored as they are used
    layers/      ops with constants become layers             spell.py     how each op is written
    order.py     shared values come first                     function.py  statements and variables
    blocks.py    repeated parts become modules of their own   module.py    classes and their members
    scopes.py    parts that the source model names            wiring.py    how parts are wired
    stretches.py other repeated sequences of nodes
    sequences.py nn.Sequential
    names.py     names                                        compare.py   the source read back

Before `generate` returns the source, it traces the source. The resulting program must equal the original.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from burn.dialect.custom import keeping_whole
from burn.dialect.dims import symbols
from burn.dialect.program import Program
from burn.dialect.types import DTYPES
from burn.dialect.weights import Weight, WeightStore
from burn.errors import BurnError, CompileError, Problem
from burn.exporters.python.blocks import Block, fold
from burn.exporters.python.compare import difference
from burn.exporters.python.graph import Graph, Value, read
from burn.exporters.python.layers.recognise import recognise
from burn.exporters.python.module import ModuleWriter, wrapped
from burn.exporters.python.names import Names, block_name, source_class
from burn.exporters.python.order import arrange
from burn.exporters.python.rearrange import rearrange
from burn.exporters.python.sequences import sequence
from burn.exporters.python.text import literal, quoted
from burn.exporters.python.tidy import tidy
from burn.exporters.python.uses import Users, made_by, title, used_as, users_of
from burn.nn.module import Module
from burn.tracing.trace import trace

HEADER = '''"""{name}, written from {origin} by burn-import.

    model = {name}.from_file("{weights}")
    run = burn.compile(model){every}
"""

from __future__ import annotations

import burn
from burn import nn{ops}
'''
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Source:
    """Generated source: the text of a Python module with the class `name`, and the weights by path."""

    name: str
    text: str
    tensors: Mapping[str, Weight]

    def load(self) -> Module:
        """The model, with its weights."""
        namespace = ModuleType(f"burn_generated_{self.name}")
        exec(compile(self.text, f"<{self.name}>", "exec"), namespace.__dict__)
        model = getattr(namespace, self.name)()
        model.load_state_dict(self.tensors)
        return model


def generate(
    program: Program, name: str = "Model", origin: str = "a program", weights: str = WEIGHTS, plain: bool = True
) -> Source:
    """Raises CompileError, naming the op, for a program that no source can be written for. Rewrites the program.

    plain: where the source that reads well gives another program, write each op as a function, without layers and modules."""
    if program.input_containers or program.output_containers:
        problem = Problem("sequences and optionals as inputs or outputs are not supported")
        raise CompileError("no source can be written for this model", [problem])
    parameters = tidy(program)
    stored: list[Weight] = []
    original = read(program, parameters)
    rearrange(original, stored)
    try:
        return _written(program, parameters, stored, original, name, _Head(origin, weights))
    except BurnError:
        if not plain:
            raise
    return _written(program, parameters, stored, original, name, _Head(origin, weights, plain=True))


@dataclass(frozen=True)
class _Head:
    """The comment above the classes, and the style of ops."""

    origin: str
    weights: str
    plain: bool = False


def _written(
    program: Program, parameters: Mapping[str, Weight], stored: list[Weight], original: Graph, name: str, head: _Head
) -> Source:
    """The source, read back."""
    graph = read(program, parameters)
    rearrange(graph, stored)
    if not head.plain:
        recognise(graph)
    arrange(graph)
    writers: dict[Block, ModuleWriter] = {}
    taken = Names({name, "Model"})
    for block in [] if head.plain else fold(graph):
        users = users_of(block.nodes)
        inputs = [(value, _slot_name(block, i, graph, users)) for i, value in enumerate(block.slots)]
        called = [writers[n.attrs["block"]].name for n in block.nodes if n.op == "call"]
        wish = title(block.nodes, called)
        known = source_class([graph.classes.get(tuple(path), "") for path in block.paths])
        replaced = sequence(graph, block.nodes, block.results, block.varying, block.scope)
        block.results = [replaced.get(v, v) for v in block.results]
        own = taken.new(known or block_name(block.paths, wish, bool(called)))
        writers[block] = ModuleWriter(own, block.nodes, inputs, block.results, _uses(block), writers, block)
    if not head.plain:
        replaced = sequence(graph, graph.nodes, graph.outputs, set())
        graph.outputs = [replaced.get(v, v) for v in graph.outputs]
    inputs = [(node.result, wish) for node, wish in zip(graph.inputs, graph.input_names, strict=True)]
    writer = ModuleWriter(
        name,
        graph.nodes,
        inputs,
        graph.outputs,
        graph.uses(),
        writers,
        plain=head.plain,
        output_names=graph.output_names,
    )
    lines: list[str] = []
    for each in writers.values():
        lines += [*each.lines(), "", ""]
    lines += writer.lines(_signature(graph))
    uses_ops = any("ops." in line for line in lines)
    text = _header(graph, name, head, ", ops" if uses_ops else "") + "\n\n" + "\n".join(lines) + "\n"
    tensors = {path: _weight(value.node.weight) for value, path in writer.paths.items()}
    source = Source(name, text, tensors)
    check(source, original)
    return source


def _uses(block: Block) -> Counter[Value]:
    part = Graph([], block.nodes, block.results, [], [], WeightStore())
    return part.uses()


def _slot_name(block: Block, index: int, graph: Graph, users: Users) -> str:
    """A block's name for one of its inputs."""
    value = block.slots[index]
    for node, name in zip(graph.inputs, graph.input_names, strict=True):
        if value == node.result and (block.same[index] or re.search(r"\d", name)):
            return re.sub(r"[._]\d+(?=[._])", "", name)
    wish = used_as(value, users) or (made_by(value) if index else None)
    if wish:
        return wish
    return "x" if index == 0 or DTYPES[value.type.dtype].kind != "float" else "skip"


def _weight(weight: Weight | None) -> Weight:
    assert weight is not None
    return weight


def check(source: Source, original: Graph) -> None:
    """Raises CompileError unless tracing the source gives the program that it was written from."""
    model = source.load()
    with keeping_whole():
        program = trace(model, model.inputs, model.outputs)
    if not difference(original, read(program)):
        return
    differs = difference(original, read(program, tidy(program)))
    if differs:
        raise CompileError(
            "the source that was written for this model does not give the same program",
            [Problem(differs, hint="this is a mistake in burn: please report it")],
        )


def _header(graph: Graph, name: str, head: _Head, ops: str) -> str:
    sizes = dict.fromkeys(s for node in graph.inputs for d in node.types[0].shape for s in sorted(symbols(d)))
    every = f"  # for every size of {', '.join(sizes)}" if sizes else ""
    return HEADER.format(name=name, origin=_plain(head.origin), weights=_plain(head.weights), every=every, ops=ops)


def _plain(text: str) -> str:
    """Text that stands in a docstring as it is."""
    return text.replace("\\", "/").replace('"', "'").replace("\n", " ")


def _signature(graph: Graph) -> list[str]:
    """The class attributes that say what the model takes and gives."""
    types = [f"{quoted(n)}: {quoted(str(i.types[0]))}" for n, i in zip(graph.input_names, graph.inputs, strict=True)]
    inputs = wrapped(f"inputs = {{{', '.join(types)}}}", "", 0)
    return [*inputs, *wrapped(f"outputs = {literal(tuple(graph.output_names))}", "", 0)]
