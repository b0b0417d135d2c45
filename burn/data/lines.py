"""Text files of a row a line: plain lines, JSON lines, CSV. The file is gone over once, for where its rows begin; a row is read
when it is asked for, so that files may be larger than memory.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from burn.data.dataset import Dataset, opening, unreadable
from burn.errors import DataError, Problem

_CHUNK = 1 << 22
_MARK = b"\xef\xbb\xbf"  # what some editors write at the beginning of UTF-8


class Lines(Dataset):
    """The lines of a text file, without those that are empty. `keep_empty=True` keeps them."""

    def __init__(self, path: str | os.PathLike[str], *, encoding: str = "utf-8", keep_empty: bool = False) -> None:
        self.path, self.encoding = Path(path), encoding
        if "\n".encode(encoding) != b"\n":  # lines are found as bytes
            raise DataError(f"{self.path} cannot be read by lines", [f"a line ends with several bytes in {encoding}"])
        with opening(self.path), self.path.open("rb") as file:
            self._starts, self._ends, self._numbers = self._found(file, keep_empty)
        self._file: BinaryIO | None = None

    def _found(self, file: BinaryIO, keep_empty: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where rows begin and end in the file, and the number of each one's first line."""
        starts, ends = _line_bounds(file)
        kept = np.flatnonzero((ends > starts) | keep_empty)
        return starts[kept], ends[kept], kept + 1

    def __len__(self) -> int:
        return len(self._starts)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def location(self, index: int) -> str:
        return f"line {self._numbers[index]} of {self.path}"

    def text(self, index: int) -> str:
        """A row's text as it is in the file."""
        if self._file is None:
            self._file = self.path.open("rb")
        start, size = int(self._starts[index]), int(self._ends[index] - self._starts[index])
        data = os.pread(self._file.fileno(), size, start)
        if len(data) < size:
            raise DataError(
                f"{self.location(index)} cannot be read", ["the file has become shorter since it was opened"]
            )
        return data.decode(self.encoding)

    def row(self, index: int) -> Any:
        return self.text(index)


class JsonLines(Lines):
    """The values of a file with one JSON value a line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)

    def row(self, index: int) -> Any:
        return json.loads(self.text(index), object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has two values called '{next(n for n in names if names.count(n) > 1)}'")
    return found


class Csv(Lines):
    """The rows of a CSV file as dictionaries by column. The first row names the columns unless `header` does.

    `types`: converts a string to a value, for all columns (`float`) or by column (`{"age": int}`); other columns stay strings.
    `columns`: the columns to read; default: all. Raises DataError for missing columns. A row with too few
    or too many fields, or a field of a wrong type, raises an error that names its line."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        types: Callable[[str], Any] | Mapping[str, Callable[[str], Any]] | None = None,
        columns: Sequence[str] | None = None,
        header: Sequence[str] | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> None:
        self.delimiter = delimiter
        super().__init__(path, encoding=encoding)
        if header is None:
            if not len(self):
                raise DataError(f"{self.path} is no CSV file", ["it has no row of column names"])
            self.header = self._names()
            self._starts, self._ends, self._numbers = self._starts[1:], self._ends[1:], self._numbers[1:]
        else:
            self.header = list(header)
        self.columns = list(self.header if columns is None else columns)
        functions = types.values() if isinstance(types, Mapping) else () if types is None else (types,)
        if wrong := [function for function in functions if not callable(function)]:
            raise DataError("types are functions of strings, such as float", [f"not {each!r}" for each in wrong])
        named = types if isinstance(types, Mapping) else dict.fromkeys(self.columns, types)
        unknown = [name for name in dict.fromkeys([*self.columns, *named]) if name not in self.header]
        twice = [n for names in (self.header, self.columns) for n in names if names.count(n) > 1]
        if unknown or twice:
            hint = f"there are {', '.join(self.header)}"
            problems = [Problem(f"there is no column '{name}'", hint=hint) for name in unknown]
            problems += [Problem(f"two columns are named '{n}'") for n in dict.fromkeys(twice)]
            raise DataError(f"{self.path} does not have these columns", problems)
        positions = {name: i for i, name in enumerate(self.header)}
        self._readers = [(n, positions[n], named.get(n)) for n in self.columns]

    def _found(self, file: BinaryIO, keep_empty: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        quoted = any(b'"' in chunk for chunk in iter(lambda: file.read(_CHUNK), b""))
        file.seek(0)
        if not quoted:  # then a line is a row
            return super()._found(file, keep_empty)
        starts, ends, numbers, at, line = [], [], [], 0, 0
        consumed: list[int] = []  # bytes of the lines that the reader has taken for its row

        def lines() -> Iterator[str]:
            for text in file:
                consumed.append(len(text))
                yield text.decode("latin-1")  # quotes and delimiters are ASCII, whatever the rest is

        if file.read(len(_MARK)) == _MARK:
            at = len(_MARK)
        file.seek(at)
        reader = csv.reader(lines(), delimiter=self.delimiter, strict=True)
        while True:
            try:
                fields = next(reader, None)
            except csv.Error as error:
                raise DataError(f"line {line + 1} of {self.path} cannot be read", [str(error)]) from error
            if fields is None:
                break
            if fields:
                starts.append(at)
                ends.append(at + sum(consumed))
                numbers.append(line + 1)
            at, line = at + sum(consumed), line + len(consumed)
            consumed.clear()
        return np.array(starts, np.int64), np.array(ends, np.int64), np.array(numbers, np.int64)

    def _names(self) -> list[str]:
        try:
            return self._fields(0)
        except Exception as error:
            raise unreadable(self, 0, error) from error

    def _fields(self, index: int) -> list[str]:
        text = io.StringIO(self.text(index), newline="\n")  # a line ends there alone, as in the file
        return next(csv.reader(text, delimiter=self.delimiter, strict=True))

    def row(self, index: int) -> dict[str, Any]:
        fields = self._fields(index)
        if len(fields) != len(self.header):
            message = f"it has {len(fields)} fields, and there are {len(self.header)} columns"
            raise DataError(f"{self.location(index)} cannot be read", [message])
        row, problems = {}, []
        for name, at, reader in self._readers:
            try:
                row[name] = fields[at] if reader is None else reader(fields[at])
            except Exception as error:
                kind = getattr(reader, "__name__", "value")
                problems.append(Problem(f"column '{name}': {fields[at]!r} is no {kind} ({error})"))
        if problems:
            raise DataError(f"{self.location(index)} cannot be read", problems)
        return row


def _line_bounds(file: BinaryIO) -> tuple[np.ndarray, np.ndarray]:
    """The start and end of each line, without its line break."""
    breaks: list[np.ndarray] = []
    returns: list[np.ndarray] = []
    size, mark = 0, b""
    for chunk in iter(lambda: file.read(_CHUNK), b""):
        mark = mark or chunk[: len(_MARK)]
        data = np.frombuffer(chunk, np.uint8)
        breaks.append(np.flatnonzero(data == ord("\n")) + size)
        returns.append(np.flatnonzero(data == ord("\r")) + size)
        size += len(chunk)
    ends = _all(breaks)
    starts = np.concatenate([[0], ends + 1]).astype(np.int64)
    starts[0] = len(_MARK) if mark == _MARK else 0
    ends = np.append(ends, size)
    if starts[-1] >= size:  # nothing after the last break
        starts, ends = starts[:-1], ends[:-1]
    before = np.isin(ends - 1, _all(returns)) & (ends > starts)
    return starts, ends - before


def _all(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts])
