"""Comparison of two programs up to names and the order of ops. Start at `difference`.

It verifies generated source: the program traced from it must equal the original, op by op.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import SMALL_BYTES, Weight
from burn.exporters.python.graph import Graph, Node, Region, Value, new_sizes
from burn.ops import ELEMENTS, element
from burn.passes.constants import uniform_number

COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor", "eq", "ne"})

TURNED = {"gt": "lt", "ge": "le"}
"""Comparisons that are others with their operands exchanged, as Python may write them."""


def difference(first: Graph, second: Graph) -> str:
    """The first difference, or ''. Large constants are equal if they are the same bytes in memory or in a file."""
    a, b = _Prints(), _Prints()
    types = [[n.types[0] for n in graph.inputs] for graph in (first, second)]
    if types[0] != types[1] or first.input_names != second.input_names:
        return f"inputs {_text(first.input_names, types[0])} became {_text(second.input_names, types[1])}"
    if first.output_names != second.output_names:
        return f"outputs {first.output_names} became {second.output_names}"
    effects = [sorted(p.region(g.inputs, g.nodes, 0)) for p, g in ((a, first), (b, second))]
    for name, x, y in zip(first.output_names, first.outputs, second.outputs, strict=True):
        if a.of(x) != b.of(y):
            return f"output '{name}': {_first_difference(a, x, b, y)}"
    if effects[0] != effects[1]:
        return "sizes that are read from data, or control flow, differ"
    return ""


class _Prints:
    """Digests of values, from their ops and operands."""

    def __init__(self) -> None:
        self._nodes: dict[Node, str] = {}
        self._keys = 0

    def of(self, value: Value) -> str:
        return f"{self._nodes.get(value.node) or self._node(value.node)}:{value.index}"

    def region(self, arguments: Sequence[Node], nodes: Sequence[Node], depth: int) -> list[str]:
        """Digests all nodes; returns those of the ones with effects."""
        for i, argument in enumerate(arguments):
            self._nodes[argument] = f"argument {depth} {i}"
        effects = []
        for node in nodes:  # keys are identified by their order; `arrange` may move them before nodes with regions
            if node.op == "random_key" and not node.operands:
                self._nodes[node] = f"random key {self._keys}"
                self._keys += 1
        for node in nodes:
            if node in self._nodes:
                continue
            inner = [self._inner(region, depth + 1) for region in node.regions]
            mine = self._node(node, inner)
            if not node.pure or new_sizes(node):
                effects.append(mine)
        return effects

    def _inner(self, region: Region, depth: int) -> str:
        effects = self.region(region.arguments, region.nodes, depth)
        types = [str(n.types[0]) for n in region.arguments]
        return repr((types, sorted(effects), [self.of(v) for v in region.results]))

    def _node(self, node: Node, regions: Sequence[str] = ()) -> str:
        if node.weight is not None:
            content: Any = ("constant", _content(node.weight))
        elif (filled := _filling(node)) is not None:
            content = ("constant", filled)
        else:
            groups = [
                [self.of(v) for v in g] if isinstance(g, list) else self.of(g) if g else None for g in node.operands
            ]
            op = node.op
            if op == "sub" and (negated := _negated(node.operands[1])) is not None:
                op, groups[1] = "add", f"{_digest(('constant', negated))}:0"  # x - 1 is how x + (-1) is written
            if op in COMMUTATIVE:
                groups = sorted(groups, key=str)
            if op in TURNED:
                groups = groups[::-1]
            content = (
                TURNED.get(op, op),
                groups,
                _attributes(node),
                [str(t) for t in node.types],
                list(regions),
            )
        digest = self._nodes[node] = _digest(content)
        return digest


def _digest(content: Any) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=16).hexdigest()


def _negated(value: Value) -> Any:
    """The content, as `_content` has it, of the negative of a signed constant of rank 0; None for other values."""
    found, type_ = value.array, value.type
    if found is None or type_.shape != () or DTYPES[type_.dtype].kind not in ("int", "float"):
        return None
    negative = -found.astype(object)
    is_whole = DTYPES[type_.dtype].kind == "int"
    return (type_.dtype, type_.shape), int(negative) if is_whole else repr(_rounded(float(negative), type_.dtype))


def _attributes(node: Node) -> list[tuple[str, str]]:
    attrs = dict(sorted(node.attrs.items()))
    if node.op == "full" and attrs["bits"] is not None and attrs["bits"] == attrs["value"]:
        attrs["bits"] = None  # they say the same
    if node.op == "full" and attrs["bits"] is None:
        attrs["value"] = _rounded(attrs["value"], node.types[0].dtype)
    for name in ELEMENTS.get(node.op, ()):
        attrs[name] = element(attrs[name], node.types[0].dtype)
    return [(k, str(v) if not isinstance(v, tuple) else str([str(d) for d in v])) for k, v in attrs.items()]


def _filling(node: Node) -> Any:
    """The content of a constant of one repeated number, as `_content` has it; None for other nodes."""
    if node.op != "full" or not all(isinstance(d, int) for d in node.attrs["shape"]):
        return None
    attrs, type_ = node.attrs, node.types[0]
    number = attrs["value"] if attrs["bits"] is None else attrs["bits"]
    whole = DTYPES[type_.dtype].kind in ("int", "uint")
    return (type_.dtype, type_.shape), int(number) if whole else repr(_rounded(number, type_.dtype))


def _rounded(number: float, dtype: str) -> float:
    """A number as an element of the type holds it."""
    with np.errstate(over="ignore"):
        return float(np.asarray(number).astype(numpy_dtype(dtype))) if DTYPES[dtype].kind == "float" else number


def _content(weight: Weight) -> Any:
    """A constant's key: its type, and its elements or their address."""
    kind = (weight.dtype, weight.shape)
    if weight.dtype == "string":
        return kind, weight.array().reshape(-1).tolist()
    number = uniform_number(weight.array(), weight.dtype) if not weight.packed else None
    if number is not None:
        return kind, number if isinstance(number, int) else repr(_rounded(number, weight.dtype))
    if weight.nbytes <= SMALL_BYTES:
        return kind, hashlib.blake2b(np.ascontiguousarray(weight.array()).tobytes(), digest_size=16).hexdigest()
    buffer = np.asarray(weight.buffer)
    return kind, buffer.__array_interface__["data"][0]


def _first_difference(a: _Prints, x: Value, b: _Prints, y: Value) -> str:
    """The first difference on the way from the inputs."""
    while True:
        if x.node.op != y.node.op:
            return f"{x.node.op} ({x.type}, node '{x.node.source}') became {y.node.op} ({y.type})"
        prints = [{a.of(p) for p in x.node.values}, {b.of(q) for q in y.node.values}]
        if x.node.op in COMMUTATIVE:  # the operands that the other side has not got
            pairs = zip(
                (p for p in x.node.values if a.of(p) not in prints[1]),
                (q for q in y.node.values if b.of(q) not in prints[0]),
                strict=False,
            )
        else:
            pairs = zip(x.node.values, y.node.values, strict=False)
        parted = next(((p, q) for p, q in pairs if a.of(p) != b.of(q)), None)
        if parted is None:
            return f"{x.node.op} (node '{x.node.source}') {_attributes(x.node)} became {_attributes(y.node)}: {x.type}, {y.type}"
        x, y = parted


def _text(names: Sequence[str], types: Sequence[Any]) -> str:
    return ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
