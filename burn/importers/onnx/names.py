"""Names of sizes: what a model calls its dimensions, made into identifiers, and fresh ones for sizes it does not
name."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping

import onnx

from burn.dialect.dims import Dim, Expr, Symbol, parse, substitute, symbol, symbols


def identifier(text: str) -> str:
    """The text as an identifier that `dims.parse` can read back."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "dim"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


Varying = Mapping[str, Mapping[int, str]]
"""Names for sizes, by input and axis."""


class SizeNames:
    """The sizes of one program by name.

    Two inputs whose dimensions have one name share the size. A name that is an expression of other inputs' names
    ("past + seq") is that expression. fixed: values given for names (as in the model, or as identifiers). varying: names for
    axes of inputs whose sizes vary, whatever the model says of them.
    """

    def __init__(
        self, graph: onnx.GraphProto, fixed: Mapping[str, int] | None = None, varying: Varying | None = None
    ) -> None:
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

    def of_input(self, name: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> Dim:
        """The size of an input's axis."""
        if label := self.varying.get(name, {}).get(axis):
            return self.named(label)
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return dim.dim_value
        return self.named(dim.dim_param.strip() or f"{name}_{axis}")

    def named(self, text: str) -> Dim:
        for key in (text, identifier(text)):
            if key in self.fixed:
                self.unused.discard(key)
                return self.fixed[key]
        if text not in self._symbols:
            try:
                parts = parse(text)
            except ValueError:
                parts = None
            if isinstance(parts, Expr) and not parts.is_symbol and symbols(parts) <= self._plain:
                return substitute(parts, {Symbol(n): self.named(n) for n in symbols(parts)})
            self._symbols[text] = symbol(self.fresh(text))
        return self._symbols[text]
