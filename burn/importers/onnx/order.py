"""The order of a graph's nodes: ONNX requires producers before users, which files do not always have."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence

import onnx
from onnx import AttributeProto


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def initializer_names(graph: onnx.GraphProto) -> Iterator[str]:
    for tensor in graph.initializer:
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name


def names_used(node: onnx.NodeProto) -> set[str]:
    """The values that a node reads, those that its subgraphs take from outside among them."""
    used = {name for name in node.input if name}
    for graph in subgraphs(node):
        used |= free_names(graph)
    return used


def free_names(graph: onnx.GraphProto) -> set[str]:
    """The values that a graph reads and does not define."""
    defined = {value.name for value in graph.input} | set(initializer_names(graph))
    used = {value.name for value in graph.output}
    for node in graph.node:
        used |= names_used(node)
        defined.update(node.output)
    return used - defined


def sort_nodes(
    nodes: list[onnx.NodeProto], defined: Collection[str]
) -> tuple[list[onnx.NodeProto] | None, list[onnx.NodeProto]]:
    """(the nodes in an order in which producers come first, or None when they already are; the nodes of a cycle).

    defined: names that need no producer. With a cycle there is no order, and the first part is None.
    """
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name and name not in defined:
                producer.setdefault(name, index)
    uses = [{producer[name] for name in names_used(node) if name in producer} for node in nodes]
    if all(used < index for index, needed in enumerate(uses) for used in needed):
        return None, []
    users: list[list[int]] = [[] for _ in nodes]
    missing = [len(needed) for needed in uses]
    for index, needed in enumerate(uses):
        for used in needed:
            users[used].append(index)
    ready = deque(index for index, count in enumerate(missing) if count == 0)
    order: list[int] = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    if len(order) == len(nodes):
        return [nodes[index] for index in order], []
    return None, [nodes[index] for index in _cycle(uses, {index for index, count in enumerate(missing) if count})]


def nodes_between(
    nodes: Sequence[onnx.NodeProto], given: Collection[str], target: str, known: Collection[str]
) -> list[onnx.NodeProto]:
    """The nodes that compute `target` of the names `given`, and those that it needs besides and that are not `known`. The nodes
    are in order."""
    depends = set(given)
    for node in nodes:
        if not depends.isdisjoint(names_used(node)):
            depends.update(o for o in node.output if o)
    wanted = {target} - set(given)
    chosen: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        made = wanted.intersection(node.output)
        if made and (not made.isdisjoint(depends) or not made <= set(known)):
            chosen.append(node)
            wanted |= names_used(node) - set(given)
    return chosen[::-1]


def _cycle(uses: list[set[int]], stuck: set[int]) -> list[int]:
    """One cycle among the nodes that wait: each uses another stuck one, so following that leads into it."""
    path: list[int] = []
    position: dict[int, int] = {}
    index = min(stuck)
    while index not in position:
        position[index] = len(path)
        path.append(index)
        index = min(uses[index] & stuck)
    cycle = path[position[index] :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
