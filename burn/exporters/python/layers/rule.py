"""What a rule is: it looks at one node and says what layer it is, or that it is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import array_weight
from burn.exporters.python.graph import Graph, Node, Value, walk
from burn.exporters.python.text import number

SMALL = 4096
"""Elements up to which an integer constant may be copied, so that each layer has one of its own."""


@dataclass
class Layer:
    """A layer found: its class, constructor's arguments (positional ones without a default), parameters and operands.

    defaults: arguments that need not be written when they have this value. absorbed: nodes that go with it, besides the
    one it is put in the place of (`last`)."""

    name: str
    operands: list[Any]
    constants: dict[str, Any]
    arguments: dict[str, Any]
    defaults: dict[str, Any] = field(default_factory=dict)
    absorbed: list[Node] = field(default_factory=list)
    last: Node | None = None


class Context:
    """What a rule may ask about the graph."""

    def __init__(self, graph: Graph) -> None:
        self.uses: Counter[Value] = graph.uses()
        self.owned: set[Value] = set()
        self.layers: dict[tuple[Value, ...], tuple[Any, ...]] = {}  # parameters -> what the layer that has them is
        self.users: dict[Value, list[Node]] = {}
        for node in walk(graph.nodes):
            for value in node.values:
                self.users.setdefault(value, []).append(node)

    def constant(self, value: Value | None) -> bool:
        """Whether a value is a constant, or one number repeated."""
        return value is not None and (_is_filled(value) or value.node.op == "constant")

    def take(self, layer: Layer) -> bool:
        """Whether a layer may have its parameters: nothing else does, but for a layer that is the same."""
        parameters = tuple(v for v in layer.constants.values() if not _is_filled(v))
        what = (layer.name, tuple(layer.constants), repr(layer.arguments))
        if any(v in self.owned for v in parameters):
            return self.layers.get(parameters) == what and len(parameters) == len(layer.constants)
        self.layers[parameters] = what
        return True

    def apart(self, values: Iterable[Value]) -> bool:
        """Whether constants are not one another, so that each can be a parameter."""
        kept = [v for v in values if not _is_filled(v)]
        return len(set(kept)) == len(kept)

    def own(self, value: Value) -> Value:
        """A constant as a layer's parameter."""
        if _is_filled(value):  # every layer may have one of its own
            weight = value.node.weight
            if weight is None:
                attrs = value.node.attrs
                number = attrs["value"] if attrs["bits"] is None else attrs["bits"]
                shape = [d for d in value.type.shape if isinstance(d, int)]
                weight = array_weight(np.full(shape, number).astype(numpy_dtype(value.type.dtype)))
            value = Node("constant", types=[value.type], weight=weight).result
        self.owned.add(value)
        return value

    def only_user(self, value: Value) -> Node | None:
        """The one node that a value is for."""
        users = self.users.get(value, [])
        return users[0] if self.uses[value] == 1 and len(users) == 1 else None


def _is_filled(value: Value) -> bool:
    """Whether a value is one number repeated, or a single number: nothing that has a name."""
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
    return float(number(epsilon, "float32" if dtype != "float64" else dtype))
