"""Types in MLIR's syntax. Enter at `TypeReader.read`."""

from __future__ import annotations

import re

from burn.dialect.types import DTYPES
from burn.importers.stablehlo.syntax.cursor import Cursor
from burn.importers.stablehlo.syntax.module import FunctionType, OtherType, QuantizedType, Ranked, TupleType

ELEMENTS = {
    **{d.mlir: d.name for d in DTYPES.values() if d.kind not in ("string", "list")},
    "f8E8M0FNU": "float8_e8m0fnu",
}
"""MLIR's element types and burn's names of them."""

_SIMPLE = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([A-Za-z]\w*|complex<f\d+>)>")
_DIMS = re.compile(r"(?:(?:\d+|\?)x)*")
_WORD = re.compile(r"[A-Za-z_][\w$.]*")
_SIZE = 19
"""Digits of the largest size that an int64 holds."""


class TypeReader:
    """Reads types. Equal texts of plain tensors are read once."""

    def __init__(self) -> None:
        self._known: dict[str, Ranked] = {}
        self.aliases: dict[str, object] = {}

    def read(self, cursor: Cursor) -> object:
        """The type at the cursor. Raises ModelError for what is none."""
        simple = cursor.match(_SIMPLE)
        if simple is not None:
            known = self._known.get(simple.group())
            if known is None:
                element = ELEMENTS.get(simple[2], simple[2])
                known = self._known[simple.group()] = Ranked(element, _sizes(cursor, simple[1]))
            return known
        with cursor.nested():
            return self._other(cursor)

    def _other(self, cursor: Cursor) -> object:
        if cursor.at("("):
            return self.function(cursor)
        if cursor.at("!"):
            name = cursor.dialect_name()
            if not cursor.at("<"):
                return self.aliases.get(name) or OtherType(f"!{name}")
            body = cursor.balanced()
            return quantized(name, body) or OtherType(f"!{name}<{body}>")
        word = cursor.expect(_WORD, "a type").group()
        if word == "tensor":
            return self._tensor(cursor)
        if word == "tuple":
            cursor.take("<")
            members = []
            while not cursor.accept(">"):
                members.append(self.read(cursor))
                cursor.accept(",")
            return TupleType(tuple(members))
        if cursor.at("<"):
            return OtherType(f"{word}<{cursor.balanced()}>")
        return OtherType(word)

    def _tensor(self, cursor: Cursor) -> object:
        cursor.take("<")
        if cursor.accept("*"):
            element = cursor.until(">")
            return OtherType(f"tensor<*{element}>")
        found = cursor.match(_DIMS)
        shape = _sizes(cursor, found.group() if found else "")
        element = self.read(cursor)
        name: str | QuantizedType
        if isinstance(element, QuantizedType):
            name = element
        else:
            text = str(element).replace(" ", "")
            name = ELEMENTS.get(text, text)
        bounds: tuple[int | None, ...] = ()
        if cursor.accept(","):
            encoding = cursor.until_closed(">")
            if "bounds<" in encoding:
                inner = encoding.split("bounds<", 1)[1].split(">", 1)[0]
                bounds = tuple(int(b) if b.strip().isdigit() else None for b in inner.split(","))
        cursor.take(">")
        return Ranked(name, shape, bounds)

    def function(self, cursor: Cursor) -> FunctionType:
        """`(types) -> type` or `(types) -> (types)`."""
        inputs = self._list(cursor)
        cursor.take("->")
        results = self._list(cursor) if cursor.at("(") else [self.read(cursor)]
        return FunctionType(tuple(inputs), tuple(results))

    def _list(self, cursor: Cursor) -> list[object]:
        cursor.take("(")
        found: list[object] = []
        while not cursor.accept(")"):
            found.append(self.read(cursor))
            cursor.accept(",")
        return found


def _sizes(cursor: Cursor, text: str) -> tuple[int | None, ...]:
    parts = text.split("x")[:-1]
    if any(len(part) > _SIZE for part in parts):
        cursor.fail("a size of more than 64 bits")
    return tuple(None if part == "?" else int(part) for part in parts)


_QUANTIZED = re.compile(r"([iu])(\d+)(?:<(-?\d+):(-?\d+)>)?:(f16|f32|f64|bf16)(?::(\d+))?,(.*)")
_SCALE = re.compile(r"([-+\deE.]+)(?::(-?\d+))?")


def quantized(name: str, body: str) -> QuantizedType | None:
    """`!quant.uniform<...>`, None for any other type or another form of it."""
    found = _QUANTIZED.fullmatch(re.sub(r"\s", "", body)) if name == "quant.uniform" else None
    if found is None:
        return None
    sign, bits, low, high, expressed, axis, rest = found.groups()
    pairs = [_SCALE.fullmatch(part) for part in rest.strip("{}").split(",")]
    try:
        scales = tuple(float(p[1]) for p in pairs if p)
    except ValueError:
        return None
    if len(scales) != len(pairs) or (axis is None) != ("{" not in rest):
        return None
    return QuantizedType(
        f"!{name}<{body}>",
        f"{'int' if sign == 'i' else 'uint'}{bits}",
        ELEMENTS[expressed],
        None if axis is None else int(axis),
        scales,
        tuple(int(p[2] or 0) for p in pairs if p),
        None if low is None else int(low),
        None if high is None else int(high),
    )
