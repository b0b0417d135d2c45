"""Parts of a model that occur again and again become modules of their own. Enter at `fold`.

Nodes are compared as a text is: each is a letter that says what it does but not how large it is, and the part to take out
is the repeated stretch that saves most lines. Its occurrences must be wired alike; where they differ in numbers (channels,
strides), these become options of the module. Each stretch found is put in place as one node, and the search begins again, so
that blocks may hold blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burn.dialect.dims import Dim, Expr, interpret, symbol
from burn.exporters.python.function import literal_constant
from burn.exporters.python.graph import Graph, Node, Value, new_sizes, walk
from burn.exporters.python.names import container_path, member_path, parameter_path, shared_prefix
from burn.exporters.python.spell import is_number, reshape_form

SHORTEST, LONGEST = 5, 600  # nodes of a stretch
MOST_SLOTS, MOST_RESULTS, MOST_OPTIONS = 8, 4, 8
MOST_BLOCKS = 24  # classes in a file
CLOSELY = 40  # stretches that are looked at closely
WORTH = 8  # lines that a block must save
OPTION = "option_"
"""What the symbols begin with that stand for options in the sizes of a block."""

LOOSE = frozenset({
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding", "dilation", "groups",
    "in_features", "out_features", "count", "dim", "normalized_shape", "num_features", "num_groups", "num_channels",
    "input_size", "hidden_size",
})  # fmt: skip
"""Arguments of layers in which occurrences of a block may differ."""


@dataclass(frozen=True)
class Option:
    """Stands for the value of an option in a layer's arguments."""

    name: str


@dataclass(eq=False)
class Block:
    """A module class: the nodes of its first occurrence, with the values from outside that they use."""

    nodes: list[Node]
    slots: list[Value]
    results: list[Value]
    path: list[str]  # where in the source model it stands
    options: dict[str, Any] = field(default_factory=dict)  # name -> values, one for each occurrence
    shapes: dict[Value, list[Any]] = field(default_factory=dict)  # of parameters, where options are in them
    names: dict[Value, str] = field(default_factory=dict)  # of parameters: what they have in common
    same: list[bool] = field(default_factory=list)  # of the slots: whether all occurrences are given the same
    varying: set[Value] = field(default_factory=set)  # results whose types differ from one occurrence to the next


@dataclass
class Occurrence:
    """A stretch of nodes as it is wired: `key` is the same for occurrences of one block."""

    nodes: list[Node]
    slots: list[Value]
    key: Any
    numbers: list[tuple[int, str, Any]]  # where (node, attribute, place in it) and what: may differ
    constants: list[Value]


def fold(graph: Graph) -> list[Block]:
    """Replaces repeated stretches of the graph's nodes by `call` nodes; returns the blocks, inner ones first."""
    blocks: list[Block] = []
    outer = shared_prefix(
        p for n in walk(graph.nodes) for v in n.constants.values() if (p := parameter_path(v.node.source))
    )
    while len(graph.nodes) >= 2 * SHORTEST and len(blocks) < MOST_BLOCKS:
        found = _Search(graph).best()
        if found is None:
            break
        blocks.append(_take_out(graph, found, outer))
    return blocks


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.uses = graph.uses()
        letters: dict[Any, int] = {}
        self.letters = np.array([letters.setdefault(_letter(n), len(letters) + 1) for n in self.nodes], np.uint64)
        self.places = [_place(n) for n in self.nodes]
        self.values = [_all_values(n) for n in self.nodes]
        self.crossing = self._crossing()

    def _crossing(self) -> list[int]:
        """How many values are computed before each place and used after it."""
        last: dict[Node, int] = {}
        for i, values in enumerate(self.values):
            last.update((v.node, i) for v in values if v.node.op not in ("constant", "input"))
        last.update((v.node, len(self.nodes)) for v in self.graph.outputs)
        change = [0] * (len(self.nodes) + 2)
        for i, node in enumerate(self.nodes):
            if node in last:
                change[i + 1] += 1
                change[last[node] + 1] -= 1
        return np.cumsum(change).tolist()

    def best(self) -> list[Occurrence] | None:
        best, found = 0.0, None
        for length, starts in sorted(self._stretches(), key=self._promise)[:CLOSELY]:
            if (len(starts) - 1) * length * 1.5 <= best:
                continue
            for occurrences in self._alike(length, starts):
                score = self._score(occurrences)
                if score > best:
                    best, found = score, occurrences
        return found if best >= WORTH else None

    def _promise(self, stretch: tuple[int, list[int]]) -> float:
        """The less the better: lines that a stretch would save, less the values that cross its ends."""
        length, starts = stretch
        crossing = self.crossing[starts[0]] + self.crossing[starts[0] + length]
        whole = self.places[starts[0]] != self.places[starts[0] - 1] if starts[0] else True
        return -(len(starts) - 1) * length * (1.2 if whole else 1.0) + len(starts) * crossing

    def _stretches(self) -> list[tuple[int, list[int]]]:
        """(length, starts) of stretches of the same letters that do not overlap and are no repetition themselves."""
        count = len(self.nodes)
        base = np.uint64(0x9E3779B97F4A7C15)
        powers = np.ones(count + 1, np.uint64)
        sums = np.zeros(count + 1, np.uint64)
        with np.errstate(over="ignore"):
            for i in range(count):
                powers[i + 1] = powers[i] * base
                sums[i + 1] = sums[i] * base + self.letters[i]
            found = []
            for length in range(SHORTEST, min(count // 2, LONGEST) + 1):
                hashes = sums[length:] - sums[:-length] * powers[length]
                _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
                for group in np.flatnonzero(counts > 1):
                    starts = _apart(np.flatnonzero(inverse == group).tolist(), length)
                    if len(starts) > 1 and not self._is_periodic(starts[0], length):
                        found.append((length, starts))
                if len(found) > 20000:
                    break
        return found

    def _is_periodic(self, start: int, length: int) -> bool:
        stretch = self.letters[start : start + length]
        periods = range(SHORTEST, length // 2 + 1)  # also of a repetition that ends in the middle
        return any(bool((stretch[p:] == stretch[:-p]).all()) for p in periods)

    def _alike(self, length: int, starts: list[int]) -> list[list[Occurrence]]:
        """Occurrences by their wiring, and where they differ in too many numbers by those as well."""
        groups: dict[Any, list[Occurrence]] = {}
        for start in starts:
            occurrence = self._occurrence(self.nodes[start : start + length])
            if occurrence is not None:
                groups.setdefault(occurrence.key, []).append(occurrence)
        result = []
        for group in groups.values():
            if len(_options(group)) > MOST_OPTIONS:
                same: dict[Any, list[Occurrence]] = {}
                for occurrence in group:
                    same.setdefault(repr(occurrence.numbers), []).append(occurrence)
                result += same.values()
            else:
                result.append(group)
        return [g for g in result if len(g) > 1]

    def _occurrence(self, nodes: list[Node]) -> Occurrence | None:
        inside = {node: i for i, node in enumerate(nodes)}
        local = Counter(v for node in nodes for v in _all_values(node))
        slots: dict[Value, int] = {}
        constants: dict[Value, int] = {}
        free: dict[Value, None] = {}  # constants that no layer owns
        for node in nodes:
            for value in node.constants.values():
                if self.uses[value] != local[value]:
                    return None  # a layer whose weights others use too
                constants.setdefault(value, len(constants))
            for value in node.values:
                if value.node in inside or is_number(value):
                    continue
                if value.node.op == "constant" and (
                    literal_constant(value) is not None or self.uses[value] == local[value]
                ):
                    if literal_constant(value) is None:
                        constants.setdefault(value, len(constants))
                        free.setdefault(value)
                    continue
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
        for i, node in enumerate(nodes):
            key.append([[label(v) for v in o] if isinstance(o, list) else label(o) for o in node.operands])
            key.append([constants[v] for v in node.constants.values()])
            key.append(_attributes(i, node, known, numbers))
        results = {(inside[v.node], v.index) for n in nodes for v in n.results if self.uses[v] > local[v]}
        return Occurrence(nodes, list(slots), repr((key, len(results) > 0)), numbers, list(constants))

    def _score(self, occurrences: list[Occurrence]) -> float:
        length, count = len(occurrences[0].nodes), len(occurrences)
        results = _results(occurrences, self.uses)
        if not 1 <= len(results) <= MOST_RESULTS:
            return 0.0
        whole = sum(self._is_whole(o) for o in occurrences) / count
        saved = (count - 1) * length - count * (len(occurrences[0].slots) + len(results) - 2)
        return (saved - len(_options(occurrences))) * (1 + 0.5 * whole)

    def _is_whole(self, occurrence: Occurrence) -> bool:
        """Whether these are the nodes of one numbered part of the source model, all of them as far as one can see."""
        start = self.nodes.index(occurrence.nodes[0])
        end = start + len(occurrence.nodes)
        places = {self.places[i] for i in range(start, end) if self.places[i]}
        beside = {self.places[i] for i in (start - 1, end) if 0 <= i < len(self.places)}
        return len(places) == 1 and places.isdisjoint(beside)


def _letter(node: Node) -> Any:
    """What a node does, without sizes; a node that cannot be in a block is a letter of its own."""
    if node.regions or new_sizes(node) or not node.pure:
        return id(node)
    ranks = tuple((t.dtype, t.rank) for t in node.types)
    if node.op == "call":
        return id(node.attrs["block"]), ranks
    strict = [(k, v) for k, v in node.attrs.items() if not (_is_loose(node, k) or _has_dims(k, v))]
    form = reshape_form(node) if node.op == "reshape" else ()
    return node.op, repr(strict), ranks, tuple(node.constants), tuple(o is None for o in node.operands), form


def _is_loose(node: Node, key: str) -> bool:
    return key in LOOSE and node.op.startswith("nn.")


def _has_dims(key: str, value: Any) -> bool:
    """Whether an attribute holds sizes, which may be symbols or differ."""
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
            for place, dim in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(dim, int) and loose:
                    numbers.append((index, f"{name} {place}", dim))
                    parts.append("number")
                else:
                    parts.append(_label(dim, known))
    return parts


def _label(dim: Dim, known: dict[Dim, str]) -> str:
    """A size in terms of the block's inputs, as the source will compute it."""
    if dim in known:
        return known[dim]
    return interpret(dim, lambda atom: known.get(Expr.of(atom), str(atom)), str, lambda op, a, b: f"{op}({a}, {b})")


def _all_values(node: Node) -> list[Value]:
    """Every value that a node uses, inside of its regions too."""
    values = [*node.values, *node.constants.values()]
    for region in node.regions:
        values += [v for n in walk(region.nodes) for v in (*n.values, *n.constants.values())] + region.results
        values += [v for n in walk(region.nodes) for r in n.regions for v in r.results]
    return values


def _apart(starts: list[int], length: int) -> list[int]:
    kept: list[int] = []
    for start in starts:
        if not kept or start >= kept[-1] + length:
            kept.append(start)
    return kept


def _place(node: Node) -> tuple[str, ...]:
    """The numbered part of the source model that a node's weights come from: ("encoder", "layer", "0")."""
    path = _path([node])
    numbered = next((i for i, part in enumerate(path) if part.isdigit()), None)
    return () if numbered is None else tuple(path[: numbered + 1])


def _path(nodes: Sequence[Node]) -> list[str]:
    """What the names of the nodes' weights begin with."""
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


def _options(occurrences: Sequence[Occurrence]) -> dict[tuple[Any, ...], list[int]]:
    """The numbers that differ: their values, one for each occurrence -> at which of `numbers` they stand."""
    columns: dict[tuple[Any, ...], list[int]] = {}
    for column, row in enumerate(zip(*(o.numbers for o in occurrences), strict=True)):
        values = tuple(number for _, _, number in row)
        if len(set(map(repr, values))) > 1:
            columns.setdefault(values, []).append(column)
    return columns


def _results(occurrences: Sequence[Occurrence], uses: Counter[Value]) -> list[tuple[int, int]]:
    """The (node, result) that any occurrence's surroundings use."""
    found: set[tuple[int, int]] = set()
    for occurrence in occurrences:
        local = Counter(v for node in occurrence.nodes for v in _all_values(node))
        for i, node in enumerate(occurrence.nodes):
            found |= {(i, v.index) for v in node.results if uses[v] > local[v]}
    return sorted(found)


# ---- taking a block out ------------------------------------------------------------------------------------------------


def _take_out(graph: Graph, occurrences: list[Occurrence], outer: int) -> Block:
    """outer: how many parts all names in the model begin with, which say nothing of the block."""
    uses = graph.uses()
    results = _results(occurrences, uses)
    first = occurrences[0]
    paths = [_path(o.nodes)[outer:] for o in occurrences]
    block = Block(first.nodes, first.slots, [first.nodes[i].results[j] for i, j in results], _shared_path(paths))
    block.varying = {
        v
        for i, node in enumerate(first.nodes)
        for v in node.results
        if any(o.nodes[i].types != node.types for o in occurrences)
    }
    block.names = {v: _common([o.constants[k] for o in occurrences]) for k, v in enumerate(first.constants)}
    block.same = [len({o.slots[k] for o in occurrences}) == 1 for k in range(len(first.slots))]
    replaced: dict[Value, Value] = {}
    calls: dict[Node, Node] = {}
    gone: set[Node] = set()
    options = _options(occurrences)
    names = _name_options(first, options)
    for number, occurrence in enumerate(occurrences):
        call = Node("call", list(occurrence.slots), types=[occurrence.nodes[i].types[j] for i, j in results])
        call.attrs = {"block": block, "options": {n: v[number] for n, v in zip(names, options, strict=True)}}
        call.attrs["template"] = list(first.constants)
        call.attrs["path"] = _path(occurrence.nodes)[outer:]
        call.constants = {str(k): value for k, value in enumerate(occurrence.constants)}
        for index, (i, j) in enumerate(results):
            replaced[occurrence.nodes[i].results[j]] = Value(call, index)
        calls[occurrence.nodes[-1]] = call
        gone.update(occurrence.nodes)
    block.options = dict(zip(names, options, strict=True))
    for name, columns in zip(names, options.values(), strict=True):
        for column in columns:
            index, attribute, _ = first.numbers[column]
            if attribute.startswith("constant "):
                value = first.constants[index]
                shape = block.shapes.setdefault(value, list(value.type.shape))
                shape[int(attribute.removeprefix("constant "))] = Option(name)
            else:
                _make_optional(first.nodes[index], attribute, name)
    graph.nodes[:] = [calls.get(n, n) for n in graph.nodes if n not in gone or n in calls]
    _replace(graph, replaced)
    return block


def _shared_path(paths: list[list[str]]) -> list[str]:
    """The parts of paths that are alike: "inception" of "inception_3a" and "inception_4b"."""
    if container_path(paths[0]) or len({len(p) for p in paths}) > 1:
        return paths[0]
    parts = []
    for column in zip(*paths, strict=True):
        words = [part.split("_") for part in column]
        same = [w[0] for w in zip(*words, strict=False) if len(set(w)) == 1]
        parts.append("_".join(same) if len({len(w) for w in words}) == 1 else column[0])
    return [p for p in parts if p]


def _common(constants: Sequence[Value]) -> str:
    """The parts of a parameter's name that are the same in all occurrences: "res2_0_branch2a" and "res3_1_branch2a"."""
    names = [v.node.source for v in constants]
    if not all(map(parameter_path, names)):
        return names[0]
    split = [re.split(r"([._/])", name) for name in names]
    if len({len(parts) for parts in split}) > 1 or len(set(names)) == 1:
        return names[0]
    kept = [column[0] for column in zip(*split, strict=True) if len(set(column)) == 1]
    return re.sub(r"^(\d*[._/]+)+", "", re.sub(r"([._/])[._/]+", r"\1", "".join(kept))).rstrip("._/")


def _name_options(first: Occurrence, options: dict[tuple[Any, ...], list[int]]) -> list[str]:
    names: list[str] = []
    for columns in options.values():
        wish = first.numbers[columns[0]][1].removeprefix("option ").split(" ")[0]
        wish = {"shape": "size", "normalized_shape": "features", "constant": "channels"}.get(wish, wish)
        name, number = wish, 1
        while name in names:
            number += 1
            name = f"{wish}{number}"
        names.append(name)
    return names


def _make_optional(node: Node, attribute: str, name: str) -> None:
    if attribute.startswith("option "):
        node.attrs["options"] = {**node.attrs["options"], attribute.removeprefix("option "): Option(name)}
    elif " " in attribute:
        key, place = attribute.split(" ")
        value = list(node.attrs[key])
        value[int(place)] = symbol(OPTION + name)
        node.attrs[key] = tuple(value)
    else:
        node.attrs[attribute] = Option(name)


def _replace(graph: Graph, replaced: dict[Value, Value]) -> None:
    def new(operand: Any) -> Any:
        if isinstance(operand, list):
            return [replaced.get(v, v) for v in operand]
        return replaced.get(operand, operand)

    for node in walk(graph.nodes):
        node.operands = [new(o) for o in node.operands]
        for region in node.regions:
            region.results = [replaced.get(v, v) for v in region.results]
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]
