"""Operators on strings (`burn/dialect/strings.py`), on Python's own."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.reference.machine import Machine
from burn.codegen.reference.operators import runs
from burn.dialect import regex
from burn.dialect.op import Op, full_name
from burn.dialect.types import numpy_dtype
from burn.runtime.abi import Status

_BLANKS = " \t\n\v\f\r"
_FLOAT = re.compile(r"[-+]?(inf|infinity|nan|([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?)", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?[0-9]+")
_RANGES = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
_MOST = 511
"""Bytes of a number's text, as in lib_text_number.c."""


def _each(machine: Machine, op: Op, function: Callable[[Any], Any]) -> None:
    """The only result of an op that treats the elements of its first operand one by one."""
    x = machine.read(op.operation.operands[0])
    made = machine.empty(op.operation.results[0])
    for index in np.ndindex(*x.shape):
        made[index] = function(x[index])
    machine.give(op, made)


def _rows(machine: Machine, op: Op, rows: list[list[str]]) -> None:
    """The results of an op that takes strings apart: the pieces, rows filled up with empty strings, and their numbers."""
    shape = machine.read(op.x).shape
    width = max(map(len, rows), default=0)
    pieces, counts = machine.allocate((*shape, width), "string"), machine.allocate(shape, "int64")
    for index, row in zip(np.ndindex(*shape), rows, strict=True):
        counts[index] = len(row)
        for column, piece in enumerate(row):
            pieces[(*index, column)] = piece
    machine.give(op, pieces, counts)


@runs("string_concat")
def _string_concat(machine: Machine, op: Op) -> None:
    lhs, rhs = machine.read(op.lhs), machine.read(op.rhs)
    made = machine.empty(op.operation.results[0])
    for index in np.ndindex(*lhs.shape):
        made[index] = lhs[index] + rhs[index]
    machine.give(op, made)


@runs("string_case")
def _string_case(machine: Machine, op: Op) -> None:
    table: dict[int, str] = {
        int(row[0]): "".join(chr(c) for c in _until_zero(row[1:])) for row in machine.read(op.table)
    }
    _each(machine, op, lambda text: text.translate(table))


def _until_zero(points: Iterable[int]) -> Iterator[int]:
    """The code points before the first 0."""
    for point in points:
        if not point:
            return
        yield int(point)


@runs("string_split")
def _string_split(machine: Machine, op: Op) -> None:
    delimiter = machine.read(op.delimiter).item() or None
    most = op.maximum if op.maximum >= 0 else -1
    _rows(machine, op, [text.split(delimiter, most) for text in machine.read(op.x).reshape(-1)])


@runs("string_find")
def _string_find(machine: Machine, op: Op) -> None:
    first: dict[str, int] = {}
    for position, text in enumerate(machine.read(op.keys)):
        first.setdefault(text, position)
    _each(machine, op, lambda text: first.get(text, -1))


@runs("string_rank")
def _string_rank(machine: Machine, op: Op) -> None:
    ordered = sorted(machine.read(op.x).reshape(-1))  # Python compares code points
    _each(machine, op, lambda text: bisect_left(ordered, text))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _written(number: Any, precision: str) -> str:
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number))
    if isinstance(number, (int, np.integer)):
        return str(int(number))
    value = float(number)
    if value != value or abs(value) == float("inf"):
        return str(abs(value)) if value != value else str(value)
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if float(np.float64(text).astype(numpy_dtype(precision))) == value:
            break
    return repr(float(text))


@runs("number_to_string")
def _number_to_string(machine: Machine, op: Op) -> None:
    _each(machine, op, lambda number: _written(number, op.precision))


@runs("string_to_number")
def _string_to_number(machine: Machine, op: Op) -> None:
    x, made = machine.read(op.x), machine.empty(op.operation.results[0])
    for number, index in enumerate(np.ndindex(*x.shape)):
        text = str(x[index])
        value = _read(text.strip(_BLANKS), op.dtype)
        if value is None:
            failed(Status.BAD_TEXT, full_name(op), number)
        made[index] = value
    machine.give(op, made)


def _read(text: str, dtype: str) -> float | int | None:
    if len(text.encode()) > _MOST:
        return None
    if dtype == "float64":
        return float(text) if _FLOAT.fullmatch(text) else None
    low, high = _RANGES[dtype]
    if not _WHOLE.fullmatch(text) or (dtype == "uint64" and text.startswith("-")) or not low <= int(text) <= high:
        return None
    return int(text)


# ---- regular expressions ---------------------------------------------------------------------------------------------


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _holds(what: int, text: str, at: int) -> bool:
    """An assertion between two characters of a text."""
    first, last = at == 0, at == len(text)
    match what:
        case regex.TEXT_START:
            return first
        case regex.TEXT_END:
            return last
        case regex.LINE_START:
            return first or text[at - 1] == "\n"
        case regex.LINE_END:
            return last or text[at] == "\n"
    edge = (not first and _is_word(text[at - 1])) != (not last and _is_word(text[at]))
    return edge == (what == regex.WORD_EDGE)


class _Automaton:
    """A compiled expression (`burn.dialect.regex`), run on all states at once."""

    def __init__(self, program: np.ndarray) -> None:
        self.code = [tuple(map(int, row)) for row in program]

    def reached(self, states: Iterable[int], text: str, at: int) -> set[int]:
        """All states without reading a character."""
        found: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            if state in found:
                continue
            found.add(state)
            kind, a, b = self.code[state]
            if kind in (regex.JUMP, regex.SPLIT):
                todo += [a, b] if kind == regex.SPLIT else [a]
            elif kind == regex.ASSERT and _holds(a, text, at):
                todo.append(state + 1)
        return found

    def following(self, states: Iterable[int], char: str) -> list[int]:
        point, found = ord(char), []
        for state in states:
            kind, a, b = self.code[state]
            if kind == regex.RANGE and a <= point <= b:
                found.append(state + 1)
            elif kind in (regex.CLASS, regex.ANTICLASS):
                inside = any(low <= point <= high for _, low, high in self.code[state + 1 : state + 1 + a])
                if inside == (kind == regex.CLASS):
                    found.append(state + 1 + a)
        return found

    def ends(self, text: str, start: int) -> Iterator[int]:
        """The ends of all parts that begin at `start`."""
        states: Iterable[int] = [0]
        for at in range(start, len(text) + 1):
            here = self.reached(states, text, at)
            if any(self.code[state][0] == regex.MATCH for state in here):
                yield at
            if at == len(text):
                return
            states = self.following(here, text[at])
            if not states:
                return


@runs("string_match")
def _string_match(machine: Machine, op: Op) -> None:
    automaton = _Automaton(machine.read(op.program))
    _each(machine, op, lambda text: len(text) in automaton.ends(text, 0))


@runs("string_tokens")
def _string_tokens(machine: Machine, op: Op) -> None:
    automaton = _Automaton(machine.read(op.program))

    def tokens(text: str) -> Iterator[str]:
        at = behind = 0  # where a match may begin, and where the last one ended
        while at <= len(text):
            end = max(automaton.ends(text, at), default=-1)
            if end > at or (op.between and at == len(text)):
                token = text[behind:at] if op.between else text[at:end]
                if len(token) >= op.least:
                    yield token
                behind = end
            at = end if end > at else at + 1

    _rows(machine, op, [list(tokens(text)) for text in machine.read(op.x).reshape(-1)])
