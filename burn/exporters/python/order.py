"""Nodes in the order of hand-written code: values that several layers share come first. Enter at `arrange`.

A mask that every layer of a transformer adds to its scores is computed in the first of them in most models' graphs. Moved to
the front, it leaves the layers identical, so that blocks.py finds them. A value with one use is computed just before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from burn.dialect.dims import symbols
from burn.exporters.python.function import literal_constant
from burn.exporters.python.graph import Graph, Node, new_sizes, walk
from burn.exporters.python.spell import is_number

ENOUGH = 2  # users that make a value shared


def arrange(graph: Graph) -> None:
    """Reorders the graph's nodes; those inside of regions stay as they are."""
    nodes = [n for n in graph.nodes if not (n.types and is_number(n.result))]
    needs = needs_of(nodes)
    heavy: set[Node] = set()
    for node in nodes:
        if _has_weights(node) or any(n in heavy for n in needs[node]):
            heavy.add(node)
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for needed in needs[node]:
            users.setdefault(needed, []).append(node)
    consumers: dict[Node, set[Node]] = {}
    for node in reversed(nodes):
        found: set[Node] = set()
        for user in users.get(node, ()):
            found |= {user} if user in heavy else consumers[user]
        consumers[node] = set(list(found)[:ENOUGH])
    shared = [n for n in nodes if n not in heavy and (len(consumers[n]) >= ENOUGH or not n.pure)]
    placed: set[Node] = set()
    ordered: list[Node] = []
    for node in (*_with_needs(shared, needs), *(n for n in nodes if n in heavy), *nodes):
        for each in _with_needs([node], needs, placed):
            if each not in placed:
                placed.add(each)
                ordered.append(each)
    graph.nodes[:] = ordered


def sort(graph: Graph) -> None:
    """Puts nodes after what they need, and leaves them in their order otherwise."""
    graph.nodes[:] = _with_needs(graph.nodes, needs_of(graph.nodes))


def needs_of(nodes: list[Node]) -> dict[Node, list[Node]]:
    """The nodes that must come before each."""
    definers = {name: node for node in nodes for name in new_sizes(node)}
    return {node: list(dict.fromkeys(_needs(node, definers))) for node in nodes}


def _needs(node: Node, definers: dict[str, Node]) -> Iterator[Node]:
    """The nodes that must come before one: its operands', and those that define sizes in its types or attributes."""
    inner = [n for region in node.regions for n in walk(region.nodes)]
    values = [*node.values, *(v for n in inner for v in n.values)]
    values += [v for n in (node, *inner) for region in n.regions for v in region.results]
    own = {*inner, *(a for n in (node, *inner) for region in n.regions for a in region.arguments)}
    for value in values:
        if value.node.op not in ("input", "constant") and value.node not in own:
            if is_number(value):
                yield from _sized(value.node, definers)
            else:
                yield value.node
    for each in (node, *inner, *_called(node)):
        yield from (d for d in _sized(each, definers) if d is not node)


def _called(node: Node) -> Iterator[Node]:
    """The nodes of the block that a node calls, including blocks inside it."""
    for inner in walk(node.attrs["block"].nodes) if node.op == "call" else ():
        yield inner
        yield from _called(inner)


def _sized(node: Node, definers: dict[str, Node]) -> Iterator[Node]:
    texts = [d for t in node.types for d in t.shape]
    texts += [d for v in node.attrs.values() if isinstance(v, tuple) for d in v]
    if definers:
        for dim in texts:
            if not isinstance(dim, (str, float)):
                yield from (definers[s] for s in symbols(dim) if s in definers)


def _has_weights(node: Node) -> bool:
    return bool(node.regions or node.constants) or any(
        v.node.op == "constant" and literal_constant(v) is None for v in node.values
    )


def _with_needs(nodes: list[Node], needs: dict[Node, list[Node]], placed: set[Node] | None = None) -> list[Node]:
    """The nodes, each after what it needs."""
    seen: set[Node] = set(placed or ())
    result: list[Node] = []
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                result.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(n, False) for n in reversed(needs.get(node, ())) if n not in seen]
    return result
