"""Names of sizes: what a model calls its dimensions, made into identifiers, and fresh ones for sizes it does not
name."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence

import onnx

from burn.dialect.dims import Dim, Expr, Symbol, parse, substitute, symbol, symbols


def identifier(text: str) -> str:
    """The text as an identifier that `dims.parse` can read back."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "dim"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


NAMELESS = frozenset(("", "?", "-1", "*", "None", "none", "null", "unk", "unknown", "undefined", ":"))
"""Names that exporters write for sizes without a name: each such axis has a size of its own."""

Given = Mapping[str, "int | Sequence[int | str | None] | None"]
"""Sizes that a caller gives: a value for a name, or None for a name whose axes each have a size of their own. For an input of
unknown rank they are its sizes, as numbers, names or None."""

Varying = Mapping[str, Mapping[int, str]]
"""Names for sizes, by input and axis."""


class SizeNames:
    """The sizes of one program by name.

    Two inputs whose dimensions have one name share the size. A name that is an expression of other inputs' names
    ("past + seq") is that expression. `fixed`: values given for names (as in the model, or as identifiers). `varying`: names for
    axes of inputs whose sizes vary, which override the model's.
    """

    def __init__(self, graph: onnx.GraphProto, fixed: Given | None = None, varying: Varying | None = None) -> None:
        self.varying = varying or {}
        self.fixed = dict(fixed or {})
        self.unused = set(self.fixed)
        self._taken: set[str] = set()
        self._symbols: dict[str, Expr] = {}  # the model's name -> the size
        self._plain = {
            d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim if d.dim_param.isidentifier()
        }
        for name in sorted(self._plain):
            if not keyword.iskeyword(name):
                self._symbols[name] = symbol(name)
                self._taken.add(name)

    def fresh(self, hint: str) -> str:
        """An identifier that no size has yet."""
        base = identifier(hint)
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def given(self, name: str) -> int | None:
        """The value that the caller gives for a size which no input has, but the file leaves open."""
        self.unused.discard(name)
        value = self.fixed.get(name)
        return value if isinstance(value, int) else None

    def of_input(self, name: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> Dim:
        """The size of an input's axis."""
        if label := self.varying.get(name, {}).get(axis):
            return self.named(label)
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return dim.dim_value
        label = dim.dim_param.strip()
        if label in self.fixed and self.fixed[label] is None:
            self.unused.discard(label)
            return symbol(self.fresh(label))
        return self.named(label) if label not in NAMELESS else symbol(self.fresh(f"{name}_{axis}"))

    def shape_of(self, name: str) -> list[Dim] | None:
        """The sizes that were given for an input whose rank the model does not tell."""
        given = self.fixed.get(name)
        if not isinstance(given, (tuple, list)):
            return None
        self.unused.discard(name)
        sizes = [d if isinstance(d, int) else self.named(d) if isinstance(d, str) else None for d in given]
        return [symbol(self.fresh(f"{name}_{axis}")) if d is None else d for axis, d in enumerate(sizes)]

    def named(self, text: str) -> Dim:
        for key in (text, identifier(text)):
            if isinstance(size := self.fixed.get(key), int):
                self.unused.discard(key)
                return size
        if text not in self._symbols:
            try:
                parts = parse(text)
            except ValueError:
                parts = None
            if isinstance(parts, Expr) and not parts.is_symbol and symbols(parts) <= self._plain:
                return substitute(parts, {Symbol(n): self.named(n) for n in symbols(parts)})
            self._symbols[text] = symbol(self.fresh(text))
        return self._symbols[text]
