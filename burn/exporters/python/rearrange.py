"""Parameters that a program only uses cut up, joined or turned are stored as it uses them. Enter at `rearrange`.

Exporters write down how they turned one library's layout into another's (the gates of an LSTM in another order). Nothing is
computed here: elements are moved, so what comes out has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burn.dialect.types import FLOATS
from burn.dialect.weights import Weight, array_weight
from burn.exporters.python.function import literal_constant
from burn.exporters.python.graph import Graph, Node, Value, walk

MOVES: dict[str, Callable[[list[Any], dict[str, Any]], np.ndarray]] = {
    "reshape": lambda xs, a: xs[0].reshape(a["shape"]),
    "transpose": lambda xs, a: xs[0].transpose(a["permutation"]),
    "concat": lambda xs, a: np.concatenate(xs[0], a["axis"]),
    "slice": lambda xs, a: xs[0][tuple(map(_range, a["starts"], a["sizes"], a["steps"]))],
}


def rearrange(graph: Graph, stored: list[Weight]) -> None:
    """Replaces such parts of a graph by constants. stored: those made before of the same program, in order; new ones are
    added."""
    movers = _movers(graph)
    used = {v for n in walk(graph.nodes) if n not in movers for v in _values(n)} | set(graph.outputs)
    constants: dict[Value, Value] = {}
    arrays: dict[Value, np.ndarray] = {}
    for node in graph.nodes:
        if node in movers and node.result in used:
            number = len(constants)
            if number == len(stored):
                array = _evaluate(node.result, arrays)
                stored.append(array_weight(np.ascontiguousarray(array).reshape(array.shape)))
            made = Node("constant", types=node.types, source=_name(node), weight=stored[number])
            constants[node.result] = made.result
    graph.nodes[:] = [n for n in graph.nodes if n not in movers]
    for node in walk(graph.nodes):
        node.operands = [
            [constants.get(v, v) for v in o] if isinstance(o, list) else constants.get(o, o) for o in node.operands
        ]
        for region in node.regions:
            region.results = [constants.get(v, v) for v in region.results]
    graph.outputs = [constants.get(v, v) for v in graph.outputs]
    number = _transpose_weights(graph, stored, len(constants))
    _affine_vectors(graph, stored, number)


def _transpose_weights(graph: Graph, stored: list[Weight], number: int) -> int:
    """x @ w with a parameter w that only such matmuls use: the parameter is stored as layers have it, outputs first."""
    users: dict[Value, list[Node]] = {}
    for node in walk(graph.nodes):
        for value in _values(node):
            users.setdefault(value, []).append(node)
    for value, nodes in users.items():
        if value in graph.outputs or value.type.rank != 2 or not _is_parameter(value):
            continue
        if value.type.dtype not in FLOATS or not all(_is_turned(node, value) for node in nodes):
            continue
        if number == len(stored):
            assert value.node.weight is not None
            stored.append(array_weight(np.ascontiguousarray(value.node.weight.array().T)))
        made = Node("constant", types=[value.type.with_shape(value.type.shape[::-1])], source=value.node.source)
        made.weight = stored[number]
        number += 1
        for node in nodes:
            node.operands[1] = made.result
            node.attrs = {**node.attrs, "rhs_contract": (1,)}
    return number


def _affine_vectors(graph: Graph, stored: list[Weight], number: int) -> None:
    """group_norm(x) * scale + bias with parameters [c, 1, 1] that only this uses: operands of the op, stored as [c]."""
    users: dict[Value, list[Node]] = {}
    for node in walk(graph.nodes):
        for value in _values(node):
            users.setdefault(value, []).append(node)
    gone: set[Node] = set()
    for norm in graph.nodes:
        if norm.op not in ("group_norm", "instance_norm") or norm.operands[1] is not None:
            continue
        scaled = _only(norm.result, "mul", users, graph)
        added = _only(scaled.result, "add", users, graph) if scaled is not None else None
        if scaled is None or added is None:
            continue
        vectors = []
        for node, inner in ((scaled, norm), (added, scaled)):
            value = next(v for v in node.values if v != inner.result) if len(set(node.values)) == 2 else None
            channels = norm.types[0].shape[1]
            shape = (channels, *(1 for _ in norm.types[0].shape[2:]))
            if value is None or not _is_parameter(value) or len(users[value]) > 1 or value in graph.outputs:
                break
            if value.type.shape not in (shape, (1, *shape)) or node.types != norm.types:
                break
            vectors.append(value)
        if len(vectors) < 2:
            continue
        for value in vectors:
            if number == len(stored):
                assert value.node.weight is not None
                stored.append(array_weight(np.ascontiguousarray(value.node.weight.array().reshape(-1))))
            made = Node("constant", types=[value.type.with_shape((norm.types[0].shape[1],))], source=value.node.source)
            made.weight = stored[number]
            number += 1
            vectors[vectors.index(value)] = made.result
        added.op, added.operands, added.attrs = norm.op, [norm.operands[0], *vectors], dict(norm.attrs)
        added.source, added.scope = norm.source, norm.scope
        gone |= {norm, scaled}
    graph.nodes[:] = [n for n in graph.nodes if n not in gone]


def _only(value: Value, op: str, users: dict[Value, list[Node]], graph: Graph) -> Node | None:
    """The one user of a value, if it is such an op."""
    found = users.get(value, [])
    return found[0] if len(found) == 1 and found[0].op == op and value not in graph.outputs else None


def _is_turned(node: Node, value: Value) -> bool:
    """True if a node is a matmul with a value's columns."""
    if node.op != "dot_general" or node.operands[1] != value or node.operands[0] == value or node.attrs["rhs_batch"]:
        return False
    return node.attrs["rhs_contract"] == (0,) and node.attrs["lhs_contract"] == (node.operands[0].type.rank - 1,)


def _movers(graph: Graph) -> set[Node]:
    """The nodes that move parameters which nothing else uses."""
    users: dict[Value, list[Node]] = {}
    for node in walk(graph.nodes):
        for value in _values(node):
            users.setdefault(value, []).append(node)
    movers = set()
    for node in graph.nodes:
        static = all(isinstance(d, int) for t in node.types for d in t.shape)
        if (
            node.op in MOVES
            and static
            and not _is_laid_along(node)
            and all(_is_parameter(v) or v.node in movers for v in node.values)
        ):
            movers.add(node)
    while True:
        wrong = {
            node
            for node in movers
            for value in node.values
            if (not _is_parameter(value) and value.node not in movers)
            or (_is_parameter(value) and not movers.issuperset(users[value]))
        }
        if not wrong:
            return movers
        movers -= wrong


def _is_laid_along(node: Node) -> bool:
    """True if a node gives a vector axes of size 1, so that it broadcasts: the parameter is the vector."""
    return (
        node.op == "reshape"
        and node.operands[0].type.rank == 1
        and node.operands[0].type.elements in node.types[0].shape
    )


def _is_parameter(value: Value) -> bool:
    weight = value.node.weight
    return weight is not None and not weight.packed and weight.dtype != "string" and literal_constant(value) is None


def _evaluate(value: Value, arrays: dict[Value, np.ndarray]) -> np.ndarray:
    if value not in arrays:
        node = value.node
        if node.weight is not None:
            arrays[value] = node.weight.array()
        else:
            operands = [
                [_evaluate(v, arrays) for v in o] if isinstance(o, list) else _evaluate(o, arrays)
                for o in node.operands
            ]
            arrays[value] = MOVES[node.op](operands, node.attrs)
    return arrays[value]


def _range(start: int, size: int, step: int) -> slice:
    stop = start + size * step
    return slice(start, stop if stop >= 0 else None, step) if size else slice(0, 0)


def _values(node: Node) -> list[Value]:
    return [*node.values, *(v for region in node.regions for v in region.results)]


def _name(node: Node) -> str:
    """The common prefix of the names of its parameters."""
    names, seen, todo = [], set(), [node]
    while todo:
        each = todo.pop()
        names += [v.node.source for v in each.values if v.node.op == "constant"]
        more = [v.node for v in each.values if v.node.op != "constant" and v.node not in seen]
        seen.update(more)
        todo += more
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first if first == last else first[:same].rstrip("._/")
