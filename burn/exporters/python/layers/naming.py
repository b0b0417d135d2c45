"""The names of layers in models whose files say the modules around each node. Enter at `name_layers`.

The innermost module around a node is the layer itself for nn.Linear, and the module that calls a function for F.max_pool2d.
"""

from __future__ import annotations

from burn.exporters.python.graph import Graph, Node, walk
from burn.exporters.python.names import parameter_path, snake_case

COMPOSITE = frozenset({"MultiheadAttention", "Transformer"})
"""Classes of torch.nn whose forward calls functions, besides containers and the layers of transformers."""


def name_layers(graph: Graph) -> None:
    """Makes the scope of each layer end in the layer's own name, if the file says the modules' classes."""
    for node in walk(graph.nodes):
        if not node.op.startswith("nn.") or not (node.scope or graph.classes):
            continue
        own = _own_name(node)
        if not graph.classes:  # the scope is that of the layer, unless a module has the layer's parameters itself
            node.scope = (*node.scope, own) if own else node.scope
            continue
        if not node.scope and own is None and _path(node):
            continue
        node.named = True
        if not is_leaf(graph.classes.get(node.scope, "")) and (own or not _is_alone(graph, node)):
            node.scope = (*node.scope, own or snake_case(node.op.removeprefix("nn.").removeprefix("Fake")))


def is_leaf(cls: str) -> bool:
    """True for a class of torch.nn that is one layer."""
    module, _, name = cls.rpartition(".")
    return (
        module.startswith("torch.nn.modules.")
        and not module.endswith((".container", ".transformer"))
        and name not in COMPOSITE
    )


def _is_alone(graph: Graph, node: Node) -> bool:
    """True if a node is all of its module, as in a model's own class of norms."""
    own = [n for n in graph.nodes if n.scope[: len(node.scope)] == node.scope]
    return bool(node.scope) and own == [node]


def _own_name(node: Node) -> str | None:
    """The name that a layer's parameters have in the module around it: in_proj for self_attn.in_proj_weight."""
    path = _path(node)
    inside = path and tuple(path[: len(node.scope)]) == node.scope and len(path) == len(node.scope) + 1
    return path[-1] if inside and not path[-1].isdigit() else None


def _path(node: Node) -> list[str]:
    return next((p for v in node.constants.values() if (p := parameter_path(v.node.source))), [])
