"""Expressions over size symbols, as artefacts carry them in text: "batch", "2*seq + 1", "(n // 4)", "min(a, b)".

An artefact comes from a file, so nothing here evaluates Python: the text is parsed to a syntax tree and only integers,
names, `+ - * // %`, `min`, `max` and `broadcast` are walked. Enter at `parse` and `bind`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_LENGTH = 4000  # characters; keeps the parser's recursion shallow
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def _broadcast(*values: int) -> int:
    """The size that axes of equal sizes, or 1, broadcast to."""
    return next((value for value in values if value != 1), 1)


_CALLS: dict[str, Callable[..., int]] = {"min": lambda *v: min(v), "max": lambda *v: max(v), "broadcast": _broadcast}


class Size(NamedTuple):
    """A parsed expression."""

    text: str
    tree: ast.expr
    symbols: frozenset[str]

    @property
    def is_symbol(self) -> bool:
        return isinstance(self.tree, ast.Name)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Raises KeyError for a symbol without a value, ZeroDivisionError."""
        return _evaluate(self.tree, values)


@lru_cache(maxsize=4096)
def parse(text: str) -> Size:
    """Raises ValueError for what is not an expression over sizes."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a size expression of {len(text)} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names = frozenset(_names(tree))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"'{text}' is not a size expression") from error
    return Size(text, tree, names)


def _names(node: ast.expr) -> set[str]:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return set()
        case ast.Name(id=name):
            return {name}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _names(operand)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return _names(left) | _names(right)
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _CALLS:
            return set().union(*map(_names, args))
    raise SyntaxError(f"{type(node).__name__} in a size expression")


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(left=left, op=operator, right=right):
            return _BINARY[type(operator)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _CALLS[name](*(_evaluate(a, values) for a in args))
    raise AssertionError(ast.dump(node))  # parse() let nothing else through


class Found(NamedTuple):
    """A size of a call's input: expression, value, and its name in errors."""

    expression: int | str
    value: int
    name: str


def bind(found: Sequence[Found]) -> tuple[dict[str, int], list[str]]:
    """The symbols' values that make every expression equal the size found there, and what does not fit.

    Plain symbols are bound first. An expression with a single symbol still unknown, and linear in it, then gives that
    symbol its value ("2*seq" found as 10: seq is 5). All the others are evaluated and compared.
    """
    values: dict[str, int] = {}
    origin: dict[str, str] = {}
    problems: list[str] = []
    parsed = [(item, parse(item.expression)) for item in found if isinstance(item.expression, str)]

    for item, size in parsed:
        if size.is_symbol and size.text.strip() not in values:
            values[size.text.strip()] = item.value
            origin[size.text.strip()] = item.name
    for item, size in parsed:
        unknown = sorted(size.symbols - values.keys())
        if len(unknown) == 1 and (solved := _solve(size, unknown[0], values, item.value)) is not None:
            values[unknown[0]] = solved
            origin[unknown[0]] = item.name

    for item in found:
        if isinstance(item.expression, int):
            if item.value != item.expression:
                problems.append(f"{item.name} is {item.value}, must be {item.expression}")
            continue
        size = parse(item.expression)
        if missing := size.symbols - values.keys():
            problems.append(
                f"{item.name} is {item.value}, which is no possible value of '{size.text}'"
                f" ({', '.join(sorted(missing))} cannot be found from it)"
            )
            continue
        try:
            wanted = size.evaluate(values)
        except ZeroDivisionError:
            problems.append(f"{item.name} is {item.value}, but '{size.text}' divides by zero here")
            continue
        if wanted != item.value:
            known = ", ".join(f"{name} = {values[name]} from {origin[name]}" for name in sorted(size.symbols))
            problems.append(f"{item.name} is {item.value}, must be {_describe(size, wanted)} ({known})")
    return values, problems


def _describe(size: Size, value: int) -> str:
    return f"{size.text} = {value}"


def _solve(size: Size, name: str, values: Mapping[str, int], wanted: int) -> int | None:
    """The symbol's value for which `size` is `wanted`, where the expression is a straight line through integers."""
    try:
        at = [size.evaluate({**values, name: x}) for x in (0, 1)]
        slope = at[1] - at[0]
        if slope == 0 or (wanted - at[0]) % slope:
            return None
        candidate = (wanted - at[0]) // slope
        return candidate if candidate >= 0 and size.evaluate({**values, name: candidate}) == wanted else None
    except ZeroDivisionError:
        return None
