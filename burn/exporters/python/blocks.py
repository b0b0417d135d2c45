"""Parts of a model that occur again and again become modules of their own. Enter at `fold`.

Where the source says which module each op stands in, its modules are the parts (scopes.py); otherwise stretches of ops that
repeat are looked for (stretches.py). Occurrences of a part must be wired alike (wiring.py); where they differ in numbers
(channels, strides), these become options of the module. Each part found is put in place as one node, and the search begins
again, so that blocks may hold blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from burn.dialect.dims import Expr, Symbol
from burn.exporters.python import scopes, stretches
from burn.exporters.python.graph import Graph, Node, Value, replace, walk
from burn.exporters.python.names import container_path, parameter_path, shared_prefix
from burn.exporters.python.order import sort
from burn.exporters.python.wiring import Occurrence, options, results, weights_path

MOST_BLOCKS = 24  # classes in a file
OPTION = "option "
"""The prefix of the symbols for options in the sizes of a block; no size of a program has such a name."""


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
    path: list[str]  # Its path in the source model.
    scope: tuple[str, ...] = ()  # The module of the source model that it first was.
    paths: list[list[str]] = field(default_factory=list)  # The path of each occurrence.
    options: dict[str, Any] = field(default_factory=dict)  # Name -> values, one for each occurrence.
    shapes: dict[Value, list[Any]] = field(default_factory=dict)  # Of parameters with options in them.
    names: dict[Value, str] = field(default_factory=dict)  # The common part of parameters' names.
    same: list[bool] = field(default_factory=list)  # By slot: all occurrences receive the same value.
    varying: set[Value] = field(default_factory=set)  # Results whose types differ between occurrences.
    fixed: bool = True  # All occurrences receive and return values of the same types.


def fold(graph: Graph) -> list[Block]:
    """Replaces repeated parts of the graph by `call` nodes; returns the blocks, inner ones first."""
    blocks: list[Block] = []
    outer = shared_prefix(
        p for n in walk(graph.nodes) for v in n.constants.values() if (p := parameter_path(v.node.source))
    )
    scoped = scopes.known(graph)
    if scoped:
        scopes.settle(graph)
    while len(blocks) < MOST_BLOCKS:
        found = scopes.search(graph) if scoped else stretches.search(graph)
        if found is None:
            break
        blocks.append(_take_out(graph, found, outer))
    return blocks


# ---- taking a block out ------------------------------------------------------------------------------------------------


def _take_out(graph: Graph, occurrences: list[Occurrence], outer: int) -> Block:
    """outer: how many parts all names in the model begin with, which say nothing of the block."""
    uses = graph.uses()
    given = results(occurrences, uses)
    first = occurrences[0]
    paths = [list(o.path) or weights_path(o.nodes)[outer:] for o in occurrences]
    block = Block(
        first.nodes, first.slots, [first.nodes[i].results[j] for i, j in given], _shared_path(paths), first.path
    )
    block.paths = paths
    block.varying = {
        v
        for i, node in enumerate(first.every)
        for v in node.results
        if any(o.every[i].types != node.types for o in occurrences)
    }
    block.fixed = block.varying.isdisjoint(block.results) and all(
        o.slots[k].type == slot.type for o in occurrences for k, slot in enumerate(first.slots)
    )
    if not first.path:
        block.names = {v: _common([o.constants[k] for o in occurrences]) for k, v in enumerate(first.constants)}
    block.same = [len({o.slots[k] for o in occurrences}) == 1 for k in range(len(first.slots))]
    replaced: dict[Value, Value] = {}
    calls: dict[Node, Node] = {}
    gone: set[Node] = set()
    differing = options(occurrences)
    names = _name_options(first, differing)
    derived = _derived(first, differing, names)
    for number, occurrence in enumerate(occurrences):
        call = Node("call", list(occurrence.slots), types=[occurrence.nodes[i].types[j] for i, j in given])
        call.attrs = {
            "block": block,
            "options": {n: v[number] for n, v in zip(names, differing, strict=True) if n not in derived},
        }
        call.attrs["template"] = list(first.constants)
        call.attrs["path"] = paths[number]
        call.scope = occurrence.path
        call.pure = all(node.pure for node in occurrence.nodes)
        call.constants = {str(k): value for k, value in enumerate(occurrence.constants)}
        for index, (i, j) in enumerate(given):
            replaced[occurrence.nodes[i].results[j]] = Value(call, index)
        calls[occurrence.nodes[-1]] = call
        gone.update(occurrence.nodes)
    block.options = {n: v for n, v in zip(names, differing, strict=True) if n not in derived}
    for name, columns in zip(names, differing.values(), strict=True):
        for column in columns:
            index, attribute, _ = first.numbers[column]
            if attribute.startswith("constant "):
                value = first.constants[index]
                shape = block.shapes.setdefault(value, list(value.type.shape))
                shape[int(attribute.removeprefix("constant "))] = Option(derived.get(name, name))
            else:
                _make_optional(first.every[index], attribute, name, derived.get(name, name))
    graph.nodes[:] = [calls.get(n, n) for n in graph.nodes if n not in gone or n in calls]
    replace(graph, replaced)
    sort(graph)
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


def _name_options(first: Occurrence, differing: dict[tuple[Any, ...], list[int]]) -> list[str]:
    names: list[str] = []
    for columns in differing.values():
        wish = first.numbers[columns[0]][1].removeprefix("option ").split(" ")[0]
        wish = {"shape": "size", "normalized_shape": "features", "constant": "channels"}.get(wish, wish)
        name, number = wish, 1
        while name in names:
            number += 1
            name = f"{wish}{number}"
        names.append(name)
    return names


def _derived(first: Occurrence, differing: dict[tuple[Any, ...], list[int]], names: list[str]) -> dict[str, str]:
    """Options of layers that are a fixed part of one before: "2 * channels", "channels // 4"."""
    found: dict[str, str] = {}
    bases: dict[str, tuple[int, ...]] = {}
    for name, (values, columns) in zip(names, differing.items(), strict=True):
        if not re.match(r"(in|out)_(channels|features)|channels|features|groups|num_|hidden|input", name):
            continue
        in_forward = any(re.fullmatch(r"[a-z]+ \d+", first.numbers[c][1]) for c in columns)
        if any(type(v) is not int or v < 1 for v in values):
            continue
        text = next((t for base, numbers in bases.items() if (t := _part(values, base, numbers))), None)
        if text is None or in_forward:
            bases[name] = values
        else:
            found[name] = text
    return found


def _part(values: tuple[int, ...], base: str, numbers: tuple[int, ...]) -> str | None:
    """Values as one multiple of others."""
    ratio = Fraction(values[0], numbers[0])
    if any(Fraction(v, n) != ratio for v, n in zip(values, numbers, strict=True)) or max(ratio.as_integer_ratio()) > 16:
        return None
    times = base if ratio.numerator == 1 else f"{ratio.numerator} * {base}"
    return times if ratio.denominator == 1 else f"{times} // {ratio.denominator}"


def _make_optional(node: Node, attribute: str, name: str, text: str) -> None:
    if attribute.startswith("option "):
        node.attrs["options"] = {**node.attrs["options"], attribute.removeprefix("option "): Option(text)}
    elif " " in attribute:
        key, position = attribute.split(" ")
        value = list(node.attrs[key])
        value[int(position)] = Expr.of(Symbol(OPTION + name))
        node.attrs[key] = tuple(value)
    else:
        node.attrs[attribute] = Option(text)
