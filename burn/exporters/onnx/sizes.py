"""Symbolic sizes inside an ONNX graph: every expression is computed once, by Shape and integer nodes. Enter at `Sizes`.

A size is an int64 vector of one element, ready to be joined into a shape. It is computed in the outermost scope that
has all its symbols, so that subgraphs share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import numpy as np

from burn.dialect.dims import Atom, Dim, Expr, Symbol, coefficient, interpret, symbols
from burn.dialect.types import TensorType
from burn.exporters.onnx.graph import GraphWriter, Refused

_OPERATORS = {"add": "Add", "mul": "Mul", "min": "Min", "max": "Max", "mod": "Mod"}


class Sizes:
    """The sizes of one model. `define` and `of_value` say where a symbol comes from."""

    def __init__(self, graph: GraphWriter) -> None:
        self.graph = graph
        self._definers: dict[str, tuple[int, Callable[[], str]]] = {}  # symbol -> (scope, what computes it)
        self._known: list[dict[object, str]] = [{}]

    def define(self, name: str, compute: Callable[[], str]) -> None:
        """A symbol whose value `compute` writes, in the present scope, when it is first needed."""
        self._definers.setdefault(name, (self.graph.depth, compute))

    def of_value(self, value: str, type_: TensorType) -> None:
        """Defines the symbols that stand alone in a value's shape and are not defined yet."""
        for axis, dim in enumerate(type_.shape):
            for name in symbols(dim) if isinstance(dim, Expr) and dim.is_symbol else ():
                self.define(name, lambda axis=axis: self.shape(value, axis))

    def of_inputs(self, inputs: Sequence[tuple[str, TensorType]]) -> None:
        """Defines the symbols of a program's inputs, also those found in linear expressions alone ("2*n")."""
        for value, type_ in inputs:
            self.of_value(value, type_)
        for value, type_ in inputs:
            for axis, dim in enumerate(type_.shape):
                for name in sorted(symbols(dim) - self._definers.keys()):
                    factor = coefficient(dim, Symbol(name))
                    if isinstance(factor, int):
                        rest = dim - Expr.of(Symbol(name)) * factor
                        self.define(name, lambda v=value, a=axis, f=factor, r=rest: self._solved(v, a, f, r))

    def _solved(self, value: str, axis: int, factor: int, rest: Dim) -> str:
        """n from the size factor * n + rest."""
        difference = self.graph.node("Sub", self.shape(value, axis), self.of(rest), shared=True)
        return self.graph.node("Div", difference, self.of(factor), shared=True)

    def shape(self, value: str, axis: int) -> str:
        return self.graph.node("Shape", value, shared=True, start=axis, end=axis + 1)

    # ---- scopes ------------------------------------------------------------------------------------------------------
    def enter(self) -> None:
        self._known.append({})

    def leave(self) -> None:
        self._known.pop()
        depth = len(self._known) - 1
        self._definers = {n: d for n, d in self._definers.items() if d[0] <= depth}

    # ---- values ------------------------------------------------------------------------------------------------------
    def of(self, dim: Dim) -> str:
        """int64[1]. Raises Refused for a symbol that nothing defines."""
        if isinstance(dim, int):
            return self.graph.literal(np.array([dim], np.int64), f"size_{dim}".replace("-", "minus_"))
        return self._once(dim, symbols(dim), lambda: interpret(dim, self._leaf, self.of, self._operation))

    def scalar(self, dim: Dim) -> str:
        """int64[]."""
        if isinstance(dim, int):
            return self.graph.literal(np.array(dim, np.int64))
        axis = self.graph.literal(np.array([0], np.int64), "size_0")
        return self._once(("scalar", dim), symbols(dim), lambda: self.graph.node("Squeeze", self.of(dim), axis))

    def vector(self, dims: Sequence[Dim]) -> str:
        """int64[n]."""
        if all(isinstance(d, int) for d in dims):
            return self.graph.literal(np.array(dims, np.int64).reshape(-1), "shape")
        if len(dims) == 1:
            return self.of(dims[0])
        needed = set().union(*(symbols(d) for d in dims))
        return self._once(tuple(dims), needed, lambda: self._joined(dims))

    def _joined(self, dims: Sequence[Dim]) -> str:
        parts: list[list[Dim]] = []
        for dim in dims:
            if isinstance(dim, int) and parts and isinstance(parts[-1][-1], int):
                parts[-1].append(dim)
            else:
                parts.append([dim])
        return self.graph.node("Concat", *[self.vector(p) for p in parts], axis=0)

    def _once(self, key: object, needed: Set[str], compute: Callable[[], str]) -> str:
        missing = sorted(needed - self._definers.keys())
        if missing:
            raise Refused(f"nothing gives the size {', '.join(missing)}", "name it as the size of an input's axis")
        depth = max((self._definers[name][0] for name in needed), default=0)
        known = self._known[depth]
        if key not in known:
            before, self.graph.source = self.graph.source, "sizes"
            with self.graph.at(depth):
                known[key] = compute()
            self.graph.source = before
        return known[key]

    def _leaf(self, atom: Atom) -> str:
        assert isinstance(atom, Symbol), "a loop variable in a program's size"
        return self._once(atom.name, {atom.name}, self._definers[atom.name][1])

    def _operation(self, name: str, a: str, b: str) -> str:
        node = self.graph.node
        if name == "broadcast":
            return node("Where", node("Equal", a, self.of(1), shared=True), b, a, shared=True)
        if name != "floordiv":
            return node(_OPERATORS[name], a, b, shared=True)
        # Div rounds towards zero; what Mod leaves over divides exactly
        rest = node("Mod", a, b, shared=True)
        return node("Div", node("Sub", a, rest, shared=True), b, shared=True)
