"""The modules of the source model, from the scopes of ops. Enter at `search`.

Ops carry the path of their module ("/encoder/layer.0/attention/MatMul"). A module with several occurrences of equal ops and
wiring becomes a class. A long module that occurs once in each of several others becomes a class of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from burn.exporters.python.graph import Graph, Node, Value, common_scope
from burn.exporters.python.wiring import Occurrence, all_values, letter, occurrence, options, results

ENOUGH = 0.5  # Fraction of the nodes that must have a scope.
WORTH = 4  # Nodes that a class must save.
LONG = 16  # Nodes of a module that becomes a class even with one occurrence in each of its parents.
LONG_FUNCTION = 40  # Nodes of a function whose long parts become classes.
MOST_SLOTS, MOST_RESULTS, MOST_OPTIONS = 6, 4, 6

Scope = tuple[str, ...]


def known(graph: Graph) -> bool:
    """True if most nodes say which module they stand in."""
    return sum(bool(n.scope) for n in graph.nodes) > ENOUGH * len(graph.nodes)


def settle(graph: Graph) -> None:
    """Values without weights that several modules use belong to the module around these: a mask made in the first layer."""
    heavy: set[Node] = set()
    for node in graph.nodes:
        if node.constants or node.regions or any(v.node in heavy for v in node.values):
            heavy.add(node)
    users: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for value in all_values(node):
            users.setdefault(value.node, []).append(node)
    for node in reversed(graph.nodes):
        if node not in heavy and node in users:
            around = common_scope([u.scope for u in users[node]])
            node.scope = common_scope([node.scope, around]) if node.scope else around


def search(graph: Graph) -> list[Occurrence] | None:
    """The occurrences of the smallest module that is worth a class; None where there is none."""
    members: dict[Scope, list[Node]] = {}
    for node in graph.nodes:
        inside = node.scope[:-1] if node.op == "call" or node.op.startswith("nn.") else node.scope
        for end in range(1, len(inside) + 1):
            members.setdefault(inside[:end], []).append(node)
    signs = {path: tuple(letter(n) for n in nodes) for path, nodes in members.items()}
    groups: dict[Any, list[Scope]] = {}
    lists = {p for p in graph.containers if any(n.op == "call" for n in members.get(p, ()))}
    lists |= {p for p in graph.containers if graph.classes.get(p, "").startswith("torch.nn.modules.container.")}
    for path in signs:
        if (
            path not in lists and len(members[path]) > 1 and signs.get(path[:-1]) != signs[path]
        ):  # not a module of one module
            groups.setdefault(signs[path], []).append(path)
    uses = graph.uses()
    for sign, paths in sorted(groups.items(), key=lambda item: len(item[0])):
        if len(paths) < 2 or not _is_worth(len(sign), paths, signs, groups):
            continue
        found: dict[Any, list[Occurrence]] = {}
        for path in paths:
            each = occurrence(members[path], uses) if _is_convex(members[path], graph) else None
            if each is not None:
                each.path = path
                found.setdefault(each.key, []).append(each)
        best = max(found.values(), key=len, default=[])
        scope_paths = [o.path for o in best]
        if len(best) > 1 and _is_worth(len(sign), scope_paths, signs, groups) and _is_plain(best, uses):
            return best
    return _single(graph, {p: n for p, n in members.items() if p not in lists}, uses)


def _single(graph: Graph, members: dict[Scope, list[Node]], uses: Counter[Value]) -> list[Occurrence] | None:
    """A module that occurs once: one of a numbered list whose others are classes, or a long part of a long function."""
    lists = {n.scope[:-1] for n in graph.nodes if n.op == "call" and n.scope[-1:] and n.scope[-1].isdigit()}
    count = len(graph.nodes)
    for path, nodes in sorted(members.items(), key=lambda item: len(item[1])):
        numbered = path[-1].isdigit() and path[:-1] in lists and len(nodes) > 1
        long = count > LONG_FUNCTION and LONG <= len(nodes) <= count - LONG
        if (numbered or long) and _is_convex(nodes, graph):
            found = occurrence(nodes, uses)
            if found is None:
                continue
            found.path = path
            if _is_plain([found], uses):
                return [found]
    return None


def _is_worth(length: int, paths: Sequence[Scope], signs: dict[Scope, Any], groups: dict[Any, list[Scope]]) -> bool:
    """True if a class saves lines, given how often it will be written once the modules around it are classes."""
    written = set()
    for path in paths:
        around: Any = None
        for end in range(len(path) - 1, 0, -1):
            if len(groups.get(signs[path[:end]], ())) > 1:
                around = signs[path[:end]], path[end:]
                break
        written.add(around or path)
    return (len(written) - 1) * length >= WORTH or length >= LONG


def _is_convex(nodes: list[Node], graph: Graph) -> bool:
    """True if no value leaves a set of nodes and comes back, so that they can be computed at one time."""
    inside = set(nodes)
    first, last = graph.nodes.index(nodes[0]), graph.nodes.index(nodes[-1])
    outside: set[Node] = set()
    for node in graph.nodes[first : last + 1]:
        needed = {v.node for v in all_values(node)}
        if node in inside:
            if needed & outside:
                return False
        elif needed & (inside | outside):
            outside.add(node)
    return True


def _is_plain(occurrences: list[Occurrence], uses: Counter[Value]) -> bool:
    """True if a class would have few arguments, results and options."""
    slots, given = len(occurrences[0].slots), len(results(occurrences, uses))
    path = occurrences[0].path
    if given > 1 and all(n.scope[len(path) :][:1] and n.scope[len(path)].isdigit() for n in occurrences[0].nodes):
        return False  # a list of modules, which nothing calls
    return slots <= MOST_SLOTS and 1 <= given <= MOST_RESULTS and len(options(occurrences)) <= MOST_OPTIONS
