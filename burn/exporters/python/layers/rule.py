"""Rules: functions that match a layer at one node, or return None."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import array_weight
from burn.exporters.python.graph import Graph, Node, Value, walk
from burn.exporters.python.text import number
from burn.passes.constants import uniform_number

SMALL = 4096
"""Elements up to which an integer constant may be copied, so that each layer has one of its own."""


@dataclass
class Layer:
    """A layer found: its class, constructor's arguments (positional ones without a default), parameters and operands.

    `defaults`: arguments that are omitted if they have this value. `absorbed`: nodes that become part of the layer, besides the
    one that it replaces (`last`). `adding`: nodes that belong to its bias alone."""

    name: str
    operands: list[Any]
    constants: dict[str, Any]
    arguments: dict[str, Any]
    defaults: dict[str, Any] = field(default_factory=dict)
    absorbed: list[Node] = field(default_factory=list)
    last: Node | None = None
    adding: list[Node] = field(default_factory=list)

    def without_bias(self) -> Layer | None:
        """The layer whose bias is added by an op of its own; None for one that has no such bias."""
        if self.last is None or not self.arguments.get("bias"):
            return None
        constants = {role: v for role, v in self.constants.items() if not role.startswith("bias")}
        arguments = {**self.arguments, "bias": False}
        return Layer(self.name, self.operands, constants, arguments, self.defaults, self.absorbed)


class Context:
    """Queries of rules about the graph."""

    def __init__(self, graph: Graph) -> None:
        self.uses: Counter[Value] = graph.uses()
        self.owned: set[Value] = set()
        self.layers: dict[tuple[Value, ...], tuple[Any, dict[str, Value]]] = {}  # constants -> the layer that has them
        self.users: dict[Value, list[Node]] = {}
        self._uniform: dict[Value, bool] = {}
        for node in walk(graph.nodes):
            for value in node.values:
                self.users.setdefault(value, []).append(node)
        regions = [region for node in walk(graph.nodes) for region in node.regions]
        self._region = {node: id(region) for region in regions for node in region.nodes}

    def constant(self, value: Value | None) -> bool:
        """True if a value is a constant, or one number repeated."""
        return value is not None and (_is_filled(value) or value.node.op == "constant")

    def take(self, layer: Layer) -> dict[str, Value] | None:
        """The layer's parameters by role; None if one constant is two of them, or if another layer has one of them. A layer
        that is called again is the same."""
        given = tuple(layer.constants.values())
        what = (layer.name, tuple(layer.constants), repr(layer.arguments))
        kept = [v for v in given if not self._is_repeated(v)]
        if len(set(kept)) < len(kept):
            return None
        if any(v in self.owned for v in kept):
            before = self.layers.get(given)
            return before[1] if before is not None and before[0] == what else None
        parameters = {role: self._own(value) for role, value in layer.constants.items()}
        if kept:
            self.layers[given] = what, parameters
        return parameters

    def _own(self, value: Value) -> Value:
        """A constant as a layer's parameter."""
        if self._is_repeated(value):
            weight = value.node.weight
            if weight is None:
                attrs = value.node.attrs
                number = attrs["value"] if attrs["bits"] is None else attrs["bits"]
                shape = [d for d in value.type.shape if isinstance(d, int)]
                weight = array_weight(np.full(shape, number).astype(numpy_dtype(value.type.dtype)))
            named = not _is_filled(value) and value not in self.owned
            copy = Node("constant", types=[value.type], source=value.node.source if named else "", weight=weight)
            self.owned.add(value)
            return copy.result
        self.owned.add(value)
        return value

    def _is_repeated(self, value: Value) -> bool:
        """True if each layer may have a copy of a constant. Exporters merge equal parameters: all biases of a new model,
        which are zeros. Where the elements differ from one another, two layers share the constant on purpose."""
        if _is_filled(value):
            return True
        weight = value.node.weight
        if weight is None or weight.packed or self.uses[value] < 2:
            return False
        if value not in self._uniform:
            self._uniform[value] = uniform_number(weight.array(), weight.dtype) is not None
        return self._uniform[value]

    def only_user(self, value: Value) -> Node | None:
        """The one node that a value is for, in the same region: what is computed before a loop stays there."""
        users = self.users.get(value, [])
        if self.uses[value] != 1 or len(users) != 1 or self._region.get(users[0]) != self._region.get(value.node):
            return None
        return users[0]


def _is_filled(value: Value) -> bool:
    """True if a value is one number repeated, or a single number: nothing that has a name."""
    if value.node.op == "full":
        return all(isinstance(d, int) for d in value.type.shape)
    whole = DTYPES[value.type.dtype].kind in ("int", "uint")
    if value.node.op != "constant" or not (whole or value.type.shape == ()):
        return False
    array = value.array
    return array is not None and array.size <= SMALL and (array == array.reshape(-1)[:1]).all()


Rule = Callable[[Node, Context], "Layer | None"]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return enter


def same_or_each(values: tuple[int, ...]) -> int | tuple[int, ...]:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def pads(low: tuple[Any, ...], high: tuple[Any, ...]) -> Any:
    """`padding` as layers take it."""
    if low == high:
        return same_or_each(low)
    return tuple(zip(low, high, strict=True))


def numbers(*groups: tuple[Any, ...]) -> bool:
    return all(isinstance(v, int) for group in groups for v in group)


def single(epsilon: float, dtype: str) -> float:
    """An epsilon that float32 holds, as it was before it was rounded to that."""
    if not math.isfinite(epsilon):
        return epsilon
    return float(number(epsilon, "float32" if dtype != "float64" else dtype))
