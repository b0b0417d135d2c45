"""ONNX models whose weights are inputs of the program. Enter at `Opening`.

Float initializers are weights. The importer keeps their elements (a resize reads its scales, a reshape may read sizes computed
with floats). Values computed from weights are still computed by the program, so that they are differentiable. An initializer
without axes is usually a constant of a formula (an epsilon, a temperature) and not a learned parameter: it is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx

from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import FLOATS, TensorType
from burn.dialect.weights import Weight
from burn.importers.onnx.modules import scope_of
from burn.importers.opened import Opened

UNNAMED = re.compile(r"onnx::\w+|_?val_\d+|\d+")
"""Names that exporters give to weights that they have transposed or folded. The name of the node that reads one is better."""


class Opening:
    """training: the program is for training (batch statistics, dropout) or for inference, whatever the nodes say.

    derived: values computed from weights alone, whose elements are known."""

    def __init__(self, training: bool, graph: onnx.GraphProto) -> None:
        self.training = training
        self.derived: set[ir.Value] = set()
        self._values: dict[str, ir.Value] = {}
        self._weights: dict[str, Weight] = {}
        self._buffers: set[str] = set()
        self._next: dict[str, ir.Value] = {}
        self._users: dict[str, str] = {}
        for node in graph.node:
            for name in node.input:
                self._users.setdefault(name, scope_of(node))

    def takes(self, weight: Weight) -> bool:
        return weight.dtype in FLOATS

    def open(self, program: Program, weight: Weight, name: str) -> ir.Value:
        """The input that stands for a weight."""
        name = self._path(name, weight)
        value = program.add_input(name, TensorType(weight.dtype, weight.shape))
        self._values[name], self._weights[name] = value, weight
        self.derived.add(value)
        return value

    def _path(self, name: str, weight: Weight) -> str:
        """The name of a weight: its own, or that of the layer that reads it."""
        scope = self._users.get(name)
        path = f"{scope}.weight" if scope and weight.shape and UNNAMED.fullmatch(name) else name
        while path in self._weights:
            path += "_"
        return path

    def keep(self, value: ir.Value) -> None:
        """Notes that a weight is a running statistic, which training does not move by its gradient."""
        self._buffers.update(self._named(value))

    def renew(self, value: ir.Value, new: ir.Value) -> None:
        """Notes what a running statistic is after the run."""
        self.keep(value)
        self._next.update(dict.fromkeys(self._named(value), new))

    def _named(self, value: ir.Value) -> Iterable[str]:
        return [name for name, own in self._values.items() if own == value]

    def outputs(self) -> list[tuple[str, ir.Value]]:
        """The updated running statistics, as further outputs."""
        return [(f"next {name}", value) for name, value in self._next.items()]

    def opened(self, program: Program) -> Opened:
        numbers = {value: i for i, value in enumerate(program.inputs)}
        own = len(program.outputs) - len(self._next)
        program.renews = {own + i: numbers[self._values[name]] for i, name in enumerate(self._next)}
        read = {name for name, value in self._values.items() if any(True for _ in value.uses)}
        return Opened(
            program,
            {numbers[value]: name for name, value in self._values.items()},
            {name: weight for name, weight in self._weights.items() if name in read},
            frozenset(self._buffers & read),
            frozenset(name for name in read if self._weights[name].shape == ()),
        )
