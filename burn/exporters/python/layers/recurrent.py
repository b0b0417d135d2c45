"""Recurrent layers, and networks of several of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from burn.dialect.recurrent import DIRECTIONS
from burn.exporters.python.graph import Graph, Node, Value, live, replace
from burn.exporters.python.layers.rule import Context, Layer, rule


@rule("lstm", "gru", "rnn")
def _recurrent(node: Node, context: Context) -> Layer | None:
    x, w, r, b, lengths, *rest = node.operands
    states, peephole = (rest[:2], rest[2]) if node.op == "lstm" else (rest, None)
    constants = {"weight_input": w, "weight_hidden": r, "bias": b, "peephole": peephole}
    constants = {k: v for k, v in constants.items() if v is not None}
    if not all(map(context.constant, constants.values())):
        return None
    attrs = dict(node.attrs)
    arguments = {
        "input_size": w.type.shape[2],
        "hidden_size": r.type.shape[2],
        "direction": attrs.pop("direction"),
        "bias": b is not None,
        "activations": attrs.pop("activations"),
        "alphas": attrs.pop("alphas"),
        "betas": attrs.pop("betas"),
        "clip": attrs.pop("clip"),
        "dtype": w.type.dtype,
        **attrs,
    }
    defaults = {
        "direction": "forward", "bias": True, "activations": (), "alphas": (), "betas": (), "clip": 0.0,
        "dtype": "float32", "couple": False, "reset_after": False, "peephole": False,
    }  # fmt: skip
    if node.op == "lstm":
        arguments["peephole"] = peephole is not None
    assert arguments["direction"] in DIRECTIONS
    return Layer(f"nn.{node.op.upper()}", [x, *states, lengths], constants, arguments, defaults)


# ---- stacked layers ------------------------------------------------------------------------------------------------------

STACKED = {"nn.LSTM": "nn.StackedLSTM", "nn.GRU": "nn.StackedGRU", "nn.RNN": "nn.StackedRNN"}
"""torch's recurrent networks, by the layer that they repeat."""

USUAL = {
    "activations": (), "alphas": (), "betas": (), "clip": 0.0, "couple": False, "peephole": False,
}  # fmt: skip


def stack(graph: Graph) -> None:
    """Recurrent layers without initial states, each on the result of the one before, become torch's stacked networks."""
    uses = graph.uses()
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.values:
            users.setdefault(value, []).append(node)
    done: set[Node] = set()
    for node in list(graph.nodes):
        if node in done or not _is_usual(node):
            continue
        chain, ends, gone = [node], _sequence_form(node, users, uses), set[Node]()
        while ends is not None and not ends.batch_first and len(users.get(ends.value, ())) == 1:
            following = users[ends.value][0]
            if not _continues(following, node, ends.value, uses):
                break
            gone |= set(ends.views)
            chain.append(following)
            ends = _sequence_form(following, users, uses)
        done |= set(chain)
        if ends is not None or not uses[chain[-1].results[0]]:
            _replace_stack(graph, chain, ends, gone, users, uses)


@dataclass
class _Form:
    """The states of all steps as [steps, batch, features], or batch first: the value, and the views that make it."""

    value: Value
    views: list[Node]
    batch_first: bool


def _is_usual(node: Node) -> bool:
    """True for a layer that torch's networks can repeat."""
    return (
        node.op in STACKED
        and all(o is None for o in node.operands[1:])
        and all(node.attrs.get(k, v) == v for k, v in USUAL.items())
        and node.attrs["direction"] in ("forward", "bidirectional")
        and node.attrs.get("reset_after", node.op != "nn.GRU") in (True, node.op != "nn.GRU")
    )


def _continues(node: Node, first: Node, value: Value, uses: Counter[Value]) -> bool:
    same = ("hidden_size", "direction", "bias", "dtype")
    return (
        node.op == first.op
        and _is_usual(node)
        and node.operands[0] == value
        and uses[value] == 1
        and all(node.attrs.get(k) == first.attrs.get(k) for k in same)
    )


def _sequence_form(node: Node, users: dict[Value, list[Node]], uses: Counter[Value]) -> _Form | None:
    y = node.results[0]
    steps, directions, batch, hidden = y.type.shape
    moves = {(0, 2, 1, 3): False, (2, 0, 1, 3): True}
    views: list[Node] = []
    value, moved, batch_first = y, False, False
    for _ in range(2):
        if uses[value] != 1 or len(users.get(value, ())) != 1:
            break
        view = users[value][0]
        if view.op == "transpose" and not moved:
            order = tuple(view.attrs["permutation"])
            if order not in (moves if value == y else {(1, 0, 2): True}):
                break
            batch_first, moved = moves.get(order, True), True
        elif view.op != "reshape":
            break
        views.append(view)
        value = view.result
    batch_first = moved and batch_first
    leading = (batch, steps) if batch_first else (steps, batch)
    if not views or not (moved or directions == 1) or value.type.shape != (*leading, directions * hidden):
        return None
    return _Form(value, views, batch_first)


def _replace_stack(
    graph: Graph,
    chain: list[Node],
    ends: _Form | None,
    gone: set[Node],
    users: dict[Value, list[Node]],
    uses: Counter[Value],
) -> None:
    first, last = chain[0], chain[-1]
    joined: dict[Value, Value] = {}
    states = len(first.types) - 1
    x = first.operands[0]
    moved = x.node.op == "transpose" and tuple(x.node.attrs["permutation"]) == (1, 0, 2)
    batch_first = moved and (ends is None or ends.batch_first)
    both = first.attrs["direction"] == "bidirectional"
    made = Node(STACKED[first.op], [x.node.operands[0] if batch_first else x], source=last.source, scope=first.scope)
    steps, _, batch, hidden = first.types[0].shape
    features = hidden * (1 + both)
    shape = (batch, steps, features) if batch_first else (steps, batch, features)
    made.types = [first.types[0].with_shape(shape)]
    for index in range(1, states + 1):
        values = [n.results[index] for n in chain]
        if not any(uses[v] for v in values):
            made.types.append(first.types[index])
            continue
        if len(chain) == 1:
            joined[values[0]] = Value(made, index)
            made.types.append(values[0].type)
            continue
        node = users[values[0]][0] if users.get(values[0]) else None
        if node is None or node.op != "concat" or node.operands[0] != values or any(uses[v] != 1 for v in values):
            return
        joined[node.result] = Value(made, index)
        made.types.append(node.types[0])
        gone.add(node)
    made.attrs = {
        "input_size": first.attrs["input_size"], "hidden_size": first.attrs["hidden_size"], "num_layers": len(chain),
        "bias": first.attrs["bias"], "batch_first": batch_first, "bidirectional": both, "dtype": first.attrs["dtype"],
    }  # fmt: skip
    made.defaults = {"num_layers": 1, "bias": True, "batch_first": False, "bidirectional": False, "dtype": "float32"}
    made.constants = {f"layers.{i}.{role}": v for i, n in enumerate(chain) for role, v in n.constants.items()}
    after = [made]
    if ends is not None:
        gone |= set(ends.views)
        result = made.results[0]
        if ends.batch_first != batch_first:
            turned = Node("transpose", [result], {"permutation": (1, 0, 2)}, [ends.value.type], scope=last.scope)
            after.append(turned)
            result = turned.result
        joined[ends.value] = result
    gone |= set(chain)
    nodes = []
    for node in graph.nodes:
        if node is last:
            nodes += after
        elif node not in gone:
            nodes.append(node)
    graph.nodes[:] = nodes
    replace(graph, joined)
    graph.nodes[:] = live(graph.nodes, graph.outputs)
