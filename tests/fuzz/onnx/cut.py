"""Cuts a graph that fails down to the nodes at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .graph import Graph
from .reference import free_names
from .values import Value


@dataclass(frozen=True)
class Cut:
    """A part of the graph: what is asked for and what is given."""

    outputs: tuple[Value, ...]
    inputs: tuple[Value, ...]


Fails = Callable[[Cut], bool]


def whole(graph: Graph, outputs: list[Value]) -> Cut:
    return Cut(tuple(outputs), tuple(value for value in graph.values if value.name in graph.inputs))


def shrink(graph: Graph, cut: Cut, fails: Fails) -> Cut:
    """Keeps one output if that suffices, then makes inputs of more and more intermediate values."""
    for value in cut.outputs:
        if len(cut.outputs) > 1 and fails(found := Cut((value,), cut.inputs)):
            cut = found
            break
    if len(cut.outputs) == 1:
        cut = _nearest(graph, cut, fails)
    for value in _inner(graph, cut):
        if fails(found := Cut(cut.outputs, (*cut.inputs, value))):
            cut = found
    return cut


def _nearest(graph: Graph, cut: Cut, fails: Fails) -> Cut:
    """The first value on the way that fails, alone: from its direct operands, where that is enough."""
    values = {value.name: value for value in graph.values}
    for value in [*_inner(graph, cut), *cut.outputs]:
        makers = [node for node in graph.nodes if value.name in node.output]
        operands = [values[name] for name in free_names(makers) if name in values]
        if fails(found := Cut((value,), tuple(operands))):
            return found
    return cut


def _inner(graph: Graph, cut: Cut) -> list[Value]:
    """The values made on the way to the outputs, the first ones first."""
    made = {name for node in graph.model(list(cut.outputs), list(cut.inputs), None).graph.node for name in node.output}
    asked = {value.name for value in (*cut.outputs, *cut.inputs)}
    return [value for value in graph.values if value.name in made - asked]
