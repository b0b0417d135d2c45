"""Python expressions as text: precedence, literals, sizes. Enter at `Text`, `literal` and `size`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect.dims import Dim, Expr, interpret
from burn.dialect.types import DTYPES
from burn.exporters.python.graph import Value

COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, MULTIPLY, UNARY, POWER, ATOM = range(10)
"""How tightly an expression's outermost operator binds."""

BINARY = {
    "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", MULTIPLY), "div": ("/", MULTIPLY),
    "floordiv": ("//", MULTIPLY), "mod": ("%", MULTIPLY), "matmul": ("@", MULTIPLY),
    "and": ("&", BITAND), "or": ("|", BITOR), "xor": ("^", BITXOR),
    "eq": ("==", COMPARE), "ne": ("!=", COMPARE), "lt": ("<", COMPARE), "le": ("<=", COMPARE),
    "gt": (">", COMPARE), "ge": (">=", COMPARE),
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """An expression: how tightly it binds, and the variables in it, once for each time."""

    code: str
    binds: int = ATOM
    refs: tuple[Value, ...] = ()

    def within(self, binds: int) -> str:
        """In brackets where it stands beside an operator that binds more tightly."""
        return self.code if self.binds >= binds else f"({self.code})"


def binary(op: str, left: Text, right: Text) -> Text:
    sign, binds = BINARY[op]
    outer = binds + 1 if binds == COMPARE else binds  # comparisons do not chain here
    return Text(f"{left.within(outer)} {sign} {right.within(binds + 1)}", binds, left.refs + right.refs)


def call(function: str, *arguments: Text | str, **named: Text | str | None) -> Text:
    parts = [*arguments] + [(k, v) for k, v in named.items() if v is not None]
    refs: tuple[Value, ...] = ()
    codes = []
    for part in parts:
        key, value = part if isinstance(part, tuple) else ("", part)
        refs += value.refs if isinstance(value, Text) else ()
        code = value.code if isinstance(value, Text) else value
        codes.append(f"{key}={code}" if key else code)
    return Text(f"{function}({', '.join(codes)})", ATOM, refs)


def method(receiver: Text, name: str, *arguments: Text | str, **named: Text | str | None) -> Text:
    rest = call("", *arguments, **named)
    return Text(f"{receiver.within(ATOM)}.{name}{rest.code}", ATOM, receiver.refs + rest.refs)


# ---- literals --------------------------------------------------------------------------------------------------------


def literal(value: Any) -> str:
    """A Python value as one writes it; sizes must have been made text before."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (bool, int, type(None))):
        return repr(value)
    if isinstance(value, float):
        return number(value, "float64")
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(literal, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    raise TypeError(f"a {type(value).__name__} is not written as a literal")


def quoted(text: str) -> str:
    """A string in double quotes."""
    return '"' + repr("'" + text)[2:-1].replace('"', '\\"') + '"' if '"' not in text else repr(text)


def number(value: Any, dtype: str) -> str:
    """The shortest digits that give the same element of the type."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return str(bool(value))
    if kind in ("int", "uint"):
        return str(int(value))
    exact = float(value)
    if exact != exact or exact in (float("inf"), float("-inf")):
        return f'float("{exact}")'
    if dtype != "float64":
        short = np.format_float_positional(np.float32(exact), unique=True, trim="0")
        if 1e-4 > abs(exact) > 0 or abs(exact) >= 1e6:
            short = np.format_float_scientific(np.float32(exact), unique=True, trim="-")
        if float(np.float32(exact)) == exact and np.float32(float(short)) == np.float32(exact):
            return short
    return repr(exact)


# ---- sizes -----------------------------------------------------------------------------------------------------------


def size(dim: Dim, variable: Callable[[Dim], str | None]) -> Text:
    """A size over the variables that hold sizes; `variable` names the one that holds an expression, if there is one.
    It has one for every symbol."""
    if isinstance(dim, int):
        return Text(str(dim), ATOM if dim >= 0 else UNARY)
    held = variable(dim)
    if held is not None:
        return Text(held)

    def leaf(atom: Any) -> Text:
        name = variable(Expr.of(atom))
        assert name is not None, f"no variable for {atom}"
        return Text(name)

    def join(op: str, left: Text, right: Text) -> Text:
        if op in ("min", "max", "broadcast"):
            return Text(f"burn.Dim.{op}({left.code}, {right.code})")
        if op == "mul" and right.code.lstrip("-").isdigit():  # coefficients stand in front
            left, right = right, left
        if op == "mul" and left.code == "-1":
            return Text(f"-{right.within(UNARY)}", UNARY)
        if op in ("floordiv", "mod") and left.code.startswith("-"):
            left = Text(f"({left.code})")  # in a sum the sign must not become that of the quotient
        if op == "add" and right.code.startswith("-"):
            return Text(f"{left.within(SUM)} - {right.code[1:]}", SUM)
        return binary(op, left, right)

    return interpret(dim, leaf, lambda c: Text(str(c), ATOM if c >= 0 else UNARY), join)
