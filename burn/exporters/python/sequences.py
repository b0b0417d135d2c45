"""Modules that the source model calls one after another, as nn.Sequential. Enter at `sequence`.

A part of the source model that is such a container, and all of whose modules are layers, activations or modules of one operand,
becomes one node `sequential`. Its attribute `children` has the nodes that it stands for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from burn.exporters.python.graph import Graph, Node, Value, replace, walk
from burn.exporters.python.names import parameter_path
from burn.exporters.python.spell import reshape_form
from burn.exporters.python.text import literal, number

SHORTEST = 2

ACTIVATIONS: dict[str, Callable[[Node], str | None]] = {
    "relu": lambda node: "nn.ReLU()",
    "sigmoid": lambda node: "nn.Sigmoid()",
    "tanh": lambda node: "nn.Tanh()",
    "hard_swish": lambda node: "nn.Hardswish()",
    "mish": lambda node: "nn.Mish()",
    "silu": lambda node: "nn.SiLU()" if node.attrs["alpha"] == 1.0 else None,
    "gelu": lambda node: f"nn.GELU({_option(node, 'approximate', 'none')})",
    "leaky_relu": lambda node: f"nn.LeakyReLU({_option(node, 'alpha', 0.01)})",
    "elu": lambda node: f"nn.ELU({_option(node, 'alpha', 1.0)})",
    "reshape": lambda node: "nn.Flatten()" if reshape_form(node) == ("flatten", 1) else None,
}
"""How the layer of an op without parameters is constructed; None if the layer cannot do it."""


def _option(node: Node, name: str, default: Any) -> str:
    value = node.attrs[name]
    if value == default or (isinstance(value, float) and number(value, "float32") == number(default, "float32")):
        return ""
    return number(value, "float32") if isinstance(value, float) else literal(value)


def sequence(
    graph: Graph, nodes: list[Node], results: Sequence[Value], varying: set[Value], scope: tuple[str, ...] = ()
) -> dict[Value, Value]:
    """Puts `sequential` nodes into a list of nodes, those of the module `scope`. results: values that are used outside of it.
    Returns the values that were replaced among the results."""
    uses = Counter(results)
    for node in walk(nodes):
        uses.update([*node.values, *node.constants.values()])
        for region in node.regions:
            uses.update(region.results)
    taken: Counter[Value] = Counter(v for node in nodes for v in node.constants.values())
    paths = {node: _path(node) for node in nodes}
    replaced: dict[Value, Value] = {}
    for container in sorted(graph.containers - {scope}, key=lambda path: (-len(path), path)):
        depth = len(container)
        inside = [n for n in nodes if paths[n][:depth] == container]
        if len(inside) == 1 and inside[0].op.startswith("nn.") and len(paths[inside[0]]) > depth:
            inside[0].scope, inside[0].named = container, True  # the container has no other module that does anything
            paths[inside[0]] = container
        run = _run(inside, depth, paths, uses)
        if run is None or any(taken[v] > 1 for n in run for v in n.constants.values()):
            continue
        made = Node(
            "sequential", [run[0].operands[0]], {"children": run}, list(run[-1].types), run[0].source, container
        )
        made.named = True
        made.constants = {f"{i}.{role}": v for i, n in enumerate(run) for role, v in n.constants.items()}
        if run[-1].result in varying:
            varying.add(made.result)
        gone = set(run)
        nodes[:] = [made if n is run[-1] else n for n in nodes if n is run[-1] or n not in gone]
        part = Graph([], nodes, [], [], [], graph.weights)
        replace(part, {run[-1].result: made.result})
        replaced[run[-1].result] = made.result
        paths[made] = container
    return replaced


def _path(node: Node) -> tuple[str, ...]:
    """The module that a node is, in the source model."""
    if node.scope or node.named:
        return node.scope
    if node.op == "call":
        return tuple(node.attrs["path"])
    return next((tuple(p) for v in node.constants.values() if (p := parameter_path(v.node.source))), ())


def _run(inside: list[Node], depth: int, paths: dict[Node, tuple[str, ...]], uses: Counter[Value]) -> list[Node] | None:
    """The nodes of a container in order, if they are nothing but modules in sequence."""
    if len(inside) < SHORTEST:
        return None
    before, last = None, -1
    for node in inside:
        path = paths[node]
        if len(path) <= depth or not path[depth].isdigit() or int(path[depth]) <= last or len(node.types) != 1:
            return None  # the longer path of a node that is all of its module is right
        operands = [o for o in node.operands if o is not None]
        if len(operands) != 1 or isinstance(operands[0], list) or (before is not None and operands[0] != before.result):
            return None
        if before is not None and uses[before.result] != 1:
            return None
        if node.op in ACTIVATIONS:
            if ACTIVATIONS[node.op](node) is None:
                return None
        elif node.op not in ("call", "sequential") and not node.op.startswith("nn."):
            return None
        before, last = node, int(path[depth])
    return inside
