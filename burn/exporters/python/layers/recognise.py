"""Replaces nodes by layers.

A layer replaces a node, or several nodes at the position of the last one. Calling the layer builds exactly the nodes that it
replaces.
"""

from __future__ import annotations

from burn import nn
from burn.errors import TypeMismatch
from burn.exporters.python.graph import Graph, Node, Value, live, replace, walk
from burn.exporters.python.layers import contractions, norms, quantised, recurrent, windows  # noqa: F401 -- their rules
from burn.exporters.python.layers.naming import name_layers
from burn.exporters.python.layers.rule import RULES, Context, Layer
from burn.nn.config import ConfigError


def recognise(graph: Graph) -> None:
    """Rewrites the graph's nodes, including those in regions."""
    context = Context(graph)
    _block(graph.nodes, context)
    graph.nodes[:] = live(graph.nodes, graph.outputs)
    drop_axes(graph)
    recurrent.stack(graph)
    name_layers(graph)
    split(graph)


def drop_axes(graph: Graph) -> None:
    """A reduction that keeps its axes, followed by a reshape that drops them, is a reduction without them."""
    uses = graph.uses()
    gone: set[Node] = set()
    for node in walk(graph.nodes):
        inner = node.operands[0].node if node.op == "reshape" else None
        if (
            inner is None
            or inner.op not in ("reduce", "mean")
            or not inner.attrs["keepdims"]
            or uses[inner.result] != 1
        ):
            continue
        kept = tuple(d for i, d in enumerate(inner.types[0].shape) if i not in inner.attrs["axes"])
        if kept and kept == tuple(node.attrs["shape"]):  # simplification leaves reductions of all axes alone
            node.op, node.operands, node.attrs = inner.op, list(inner.operands), {**inner.attrs, "keepdims": False}
            gone.add(inner)
    for nodes in [graph.nodes, *(r.nodes for n in walk(graph.nodes) for r in n.regions)]:
        nodes[:] = [n for n in nodes if n not in gone]


def split(graph: Graph) -> None:
    """Slices that cut a tensor into equal parts become one node with the parts as its results."""
    replaced: dict[Value, Value] = {}
    for nodes in [graph.nodes, *(r.nodes for n in walk(graph.nodes) for r in n.regions)]:
        slices: dict[tuple[Value, int], list[Node]] = {}
        for node in nodes:
            axis = _cut_axis(node)
            if axis is not None:
                slices.setdefault((node.operands[0], axis), []).append(node)
        for (x, axis), parts in slices.items():
            ordered = sorted(parts, key=lambda n: n.attrs["starts"][axis])
            size = ordered[0].attrs["sizes"][axis]
            starts = [n.attrs["starts"][axis] for n in ordered]
            if len(parts) < 2 or starts != [i * size for i in range(len(parts))]:
                continue
            if len(parts) * size != x.type.shape[axis] or any(n.attrs["sizes"][axis] != size for n in parts):
                continue
            made = Node("chunk", [x], {"chunks": len(parts), "axis": axis}, [n.types[0] for n in ordered])
            made.source, made.scope = ordered[0].source, ordered[0].scope
            replaced.update({node.result: Value(made, i) for i, node in enumerate(ordered)})
            nodes[:] = [made if n is parts[0] else n for n in nodes if n is parts[0] or n not in parts]
    replace(graph, replaced)


def _cut_axis(node: Node) -> int | None:
    """The one axis along which a slice takes less than all, without steps."""
    if node.op != "slice" or set(node.attrs["steps"]) != {1}:
        return None
    shape, sizes, starts = node.operands[0].type.shape, node.attrs["sizes"], node.attrs["starts"]
    axes = [i for i, (have, size) in enumerate(zip(shape, sizes, strict=True)) if have != size]
    known = len(axes) == 1 and isinstance(shape[axes[0]], int)
    return axes[0] if known and isinstance(sizes[axes[0]], int) and isinstance(starts[axes[0]], int) else None


def _constructs(layer: Layer) -> bool:
    """True if the layer's class takes the arguments: ops may go further (negative padding)."""
    if not layer.name.startswith("nn."):
        return True
    positional = [v for k, v in layer.arguments.items() if k.isdigit()]
    named = {k: v for k, v in layer.arguments.items() if not k.isdigit()}
    try:
        getattr(nn, layer.name.removeprefix("nn."))(*positional, **named)
    except (ConfigError, TypeMismatch):
        return False
    return True


def _block(nodes: list[Node], context: Context) -> None:
    gone: set[Node] = set()
    for node in nodes:
        for region in node.regions:
            _block(region.nodes, context)
            region.nodes = live(region.nodes, region.results)
        found = RULES[node.op](node, context) if node.op in RULES and node not in gone else None
        constants = None
        while found is not None and constants is None:
            constants = context.take(found) if _constructs(found) else None
            found = found if constants is not None else found.without_bias()
        if found is None or constants is None:
            continue
        last = found.last or node
        gone.update(found.absorbed, found.adding, [node] if last is not node else [])
        last.op, last.operands, last.constants = found.name, list(found.operands), constants
        last.attrs, last.defaults = dict(found.arguments), found.defaults
