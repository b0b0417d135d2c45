"""How a set of nodes is wired: what makes two of them the same block, and in which numbers they differ.

Nodes are compared by a letter that says what each does but not how large it is, and by where its operands come from. Enter
at `letter` and `occurrence`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect.dims import Dim, Expr, interpret
from burn.exporters.python.function import literal_constant
from burn.exporters.python.graph import Node, Value, new_sizes, walk
from burn.exporters.python.names import member_path, parameter_path
from burn.exporters.python.spell import is_number, reshape_form

MOST_SLOTS = 8

LOOSE = frozenset({
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding", "dilation", "groups",
    "in_features", "out_features", "count", "dim", "normalized_shape", "num_features", "num_groups", "num_channels",
    "input_size", "hidden_size",
})  # fmt: skip
"""Arguments of layers in which occurrences of a block may differ."""


@dataclass
class Occurrence:
    """A stretch of nodes as it is wired: `key` is the same for occurrences of one block. every: the nodes with those in their
    regions, and the arguments of these."""

    nodes: list[Node]
    every: list[Node]
    slots: list[Value]
    key: Any
    numbers: list[tuple[int, str, Any]]  # (node, attribute, position in it), and a value that may differ
    constants: list[Value]
    path: tuple[str, ...] = ()  # the module of the source model that these are, if they are one


def occurrence(nodes: list[Node], uses: Counter[Value]) -> Occurrence | None:
    """How nodes are wired; None where they cannot be a block. uses: how often the whole graph uses each value."""
    every = list(_flat(nodes))
    inside = {node: i for i, node in enumerate(every)}
    local = Counter(v for node in nodes for v in all_values(node))
    owned = {v for node in every for v in node.constants.values()}
    slots: dict[Value, int] = {}
    constants: dict[Value, int] = {}
    free: dict[Value, None] = {}  # constants that no layer owns
    for value in (v for node in nodes for v in all_values(node)):
        if value.node in inside or value in constants:
            continue
        if value in owned:
            if uses[value] != local[value]:
                return None  # a layer whose weights have other users
            constants[value] = len(constants)
        elif value.node.op == "constant" and (literal_constant(value) is not None or uses[value] == local[value]):
            if literal_constant(value) is None:
                constants[value] = len(constants)
                free[value] = None
        elif not is_number(value):
            slots.setdefault(value, len(slots))
    if len(slots) > MOST_SLOTS:
        return None
    known: dict[Dim, str] = {}
    for value, slot in slots.items():
        for axis, dim in enumerate(value.type.shape):
            if isinstance(dim, Expr):
                known.setdefault(dim, f"d{slot}.{axis}")

    def label(value: Value | None) -> Any:
        if value is None:
            return None
        if value.node in inside:
            return "v", inside[value.node], value.index
        if value in constants:
            return "p", constants[value], value.type.dtype, value.type.rank
        if value in slots:
            return "s", slots[value], value.type.dtype, value.type.rank
        if value.node.op == "constant":
            return "c", literal_constant(value)
        size = value.node.operands[0].node if value.node.op == "cast" else value.node
        return "n", value.type.dtype, _label(size.attrs["dims"][0], known)

    key: list[Any] = []
    numbers: list[tuple[int, str, Any]] = []
    for value in free:
        for axis, dim in enumerate(value.type.shape):
            numbers.append((constants[value], f"constant {axis}", dim))
    for i, node in enumerate(every):
        if node.op == "argument":
            key.append((node.types[0].dtype, [_label(d, known) for d in node.types[0].shape]))
            continue
        key.append([[label(v) for v in o] if isinstance(o, list) else label(o) for o in node.operands])
        key.append([constants[v] for v in node.constants.values()])
        key.append(_attributes(i, node, known, numbers))
        key.append([[label(v) for v in region.results] for region in node.regions])
    results = {(inside[v.node], v.index) for n in nodes for v in n.results if uses[v] > local[v]}
    return Occurrence(nodes, every, list(slots), repr((key, len(results) > 0)), numbers, list(constants))


def letter(node: Node) -> Any:
    """A key of a node's operation, without sizes; unique for a node that cannot be in a block."""
    if new_sizes(node) or not (node.pure or node.regions):
        return id(node)
    ranks = tuple((t.dtype, t.rank) for t in node.types)
    if node.op == "call":
        return id(node.attrs["block"]), ranks
    strict = [(k, v) for k, v in node.attrs.items() if not (_is_loose(node, k) or _has_dims(k, v))]
    form = reshape_form(node) if node.op == "reshape" else ()
    regions = tuple((len(r.arguments), tuple(map(letter, r.nodes))) for r in node.regions)
    return node.op, repr(strict), ranks, tuple(node.constants), tuple(o is None for o in node.operands), form, regions


def _flat(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes, each followed by the arguments and nodes of its regions."""
    for node in nodes:
        yield node
        for region in node.regions:
            yield from region.arguments
            yield from _flat(region.nodes)


def _is_loose(node: Node, key: str) -> bool:
    return key in LOOSE and node.op.startswith("nn.")


def _has_dims(key: str, value: Any) -> bool:
    """True if an attribute holds sizes, which may be symbols or differ."""
    return key in ("shape", "sizes", "starts", "low", "high", "dims", "offset") and not isinstance(value, str)


def _attributes(index: int, node: Node, known: dict[Dim, str], numbers: list[tuple[int, str, Any]]) -> Any:
    """An attribute's part in the key; numbers that may differ are noted instead."""
    if node.op == "reshape" and reshape_form(node)[0] != "reshape":
        return ()
    parts: list[Any] = []
    for name, value in node.attrs.items():
        if _is_loose(node, name) or name == "options":
            items = value.items() if isinstance(value, dict) else [(None, value)]
            numbers += [(index, name if key is None else f"option {key}", v) for key, v in items]
        elif _has_dims(name, value):
            loose = name == "shape" and node.op in ("reshape", "broadcast_to")
            for position, dim in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(dim, int) and loose:
                    numbers.append((index, f"{name} {position}", dim))
                    parts.append("number")
                else:
                    parts.append(_label(dim, known))
    return parts


def _label(dim: Dim, known: dict[Dim, str]) -> str:
    """A size in terms of the block's inputs, as the source will compute it."""
    if dim in known:
        return known[dim]
    return interpret(dim, lambda atom: known.get(Expr.of(atom), str(atom)), str, lambda op, a, b: f"{op}({a}, {b})")


def all_values(node: Node) -> list[Value]:
    """Every value that a node uses, also inside its regions."""
    values = [*node.values, *node.constants.values()]
    for region in node.regions:
        values += [v for n in walk(region.nodes) for v in (*n.values, *n.constants.values())] + region.results
        values += [v for n in walk(region.nodes) for r in n.regions for v in r.results]
    return values


def options(occurrences: Sequence[Occurrence]) -> dict[tuple[Any, ...], list[int]]:
    """The numbers that differ: their values, one for each occurrence -> at which of `numbers` they stand."""
    columns: dict[tuple[Any, ...], list[int]] = {}
    for column, row in enumerate(zip(*(o.numbers for o in occurrences), strict=True)):
        values = tuple(number for _, _, number in row)
        if len(set(map(repr, values))) > 1:
            columns.setdefault(values, []).append(column)
    return columns


def results(occurrences: Sequence[Occurrence], uses: Counter[Value]) -> list[tuple[int, int]]:
    """The (node, result) that any occurrence's surroundings use."""
    found: set[tuple[int, int]] = set()
    for occurrence in occurrences:
        local = Counter(v for node in occurrence.nodes for v in all_values(node))
        for i, node in enumerate(occurrence.nodes):
            found |= {(i, v.index) for v in node.results if uses[v] > local[v]}
    return sorted(found)


def numbered_scope(node: Node) -> tuple[str, ...]:
    """The numbered part of the source model that a node's weights come from: ("encoder", "layer", "0")."""
    path = weights_path([node])
    numbered = next((i for i, part in enumerate(path) if part.isdigit()), None)
    return () if numbered is None else tuple(path[: numbered + 1])


def weights_path(nodes: Sequence[Node]) -> list[str]:
    """The common prefix of the names of the nodes' weights."""
    paths = []
    for node in nodes:
        names = [parameter_path(v.node.source) for v in node.constants.values()]
        names += [
            parameter_path(v.node.source)
            for v in node.values
            if v.node.op == "constant" and literal_constant(v) is None
        ]
        paths += [p for p in names if p] or ([member_path(node)] if node.constants and member_path(node) else [])
    if not paths:
        return []
    common = paths[0]
    for path in paths[1:]:
        common = [a for i, a in enumerate(common) if path[: i + 1] == common[: i + 1]]
    return common
