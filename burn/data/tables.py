"""Tables: Parquet files and SQLite databases. Rows are dictionaries by column."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from burn.data.dataset import Dataset, opening
from burn.errors import DataError, Problem


def check_columns(where: str, wanted: Sequence[str], there: Sequence[str]) -> None:
    """Raises DataError for columns that are not there, and for two of one name: a row is a dictionary by column."""
    hint = f"there are {', '.join(there)}"
    problems = [
        Problem(f"there is no column '{name}'", hint=hint) for name in dict.fromkeys(wanted) if name not in there
    ]
    twice = [name for name in dict.fromkeys(wanted) if list(wanted).count(name) > 1 or list(there).count(name) > 1]
    problems += [Problem(f"two columns are named '{name}'") for name in twice]
    if problems:
        raise DataError(f"{where} does not have these columns", problems)


class Parquet(Dataset):
    """The rows of a Parquet file (needs pyarrow). Lists of numbers come as arrays.

    A row group is read on access to one of its rows, and kept until another group is read. Shuffled reading needs
    files with small row groups, or `cached()`. Raises DataError for an invalid file, and for missing columns."""

    def __init__(self, path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> None:
        self.path = Path(path)
        self._local = threading.local()
        with opening(self.path):
            file = self._file()
            there = file.schema_arrow.names
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self.columns = list(there if columns is None else columns)
        check_columns(str(self.path), self.columns, there)
        self._ends = np.cumsum(np.array(sizes, np.int64))

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    def location(self, index: int) -> str:
        return f"row {index + 1} of {self.path}"

    def row(self, index: int) -> dict[str, Any]:
        group = int(np.searchsorted(self._ends, index, side="right"))
        if getattr(self._local, "group", None) != group:
            self._local.table = self._file().read_row_group(group, columns=self.columns)
            self._local.group = group
        table = self._local.table
        inside = index - int(self._ends[group]) + table.num_rows
        return {name: _value(table.column(name)[inside]) for name in self.columns}

    def _file(self) -> Any:
        if not hasattr(self._local, "file"):
            self._local.file = _parquet(self.path)
        return self._local.file


def _parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            "Parquet files are read by pyarrow", ["it is not installed (pip install 'burn-mlir[data]')"]
        ) from error
    return pyarrow.parquet.ParquetFile(path)


def _value(scalar: Any) -> Any:
    value = scalar.as_py()
    return np.array(value) if isinstance(value, list) and value and isinstance(value[0], (int, float)) else value


class Sqlite(Dataset):
    """The rows of a table of an SQLite database, in the order of their row numbers. The database is opened for reading only.

    where: a condition in SQL, with `?` for the parameters. Raises DataError for columns that the table does not have, and for a
    file, table or condition that SQLite refuses."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        columns: Sequence[str] | None = None,
        where: str = "",
        parameters: Sequence[Any] = (),
    ) -> None:
        self.path, self.table = Path(path), table
        self._local = threading.local()
        condition = f" WHERE {where}" if where else ""
        try:
            there = self._there()
            self.columns = there if columns is None else list(columns)
            check_columns(f"{table} in {self.path}", self.columns, there)
            number = _number(there, f"{table} in {self.path}")
            names = ", ".join(map(_quoted, self.columns))
            self._query = f"SELECT {names} FROM {_quoted(table)} WHERE {number} = ?"
            query = f"SELECT {number} FROM {_quoted(table)}{condition} ORDER BY {number}"
            found = [row[0] for row in self._database().execute(query, parameters)]
        except sqlite3.Error as error:
            raise DataError(f"{self.path} has no such rows", [str(error)]) from error
        if None in found:
            raise DataError(f"{table} in {self.path} has no row numbers", ["it is a view; give the table behind it"])
        self._rows = np.array(found, np.int64)

    def _there(self) -> list[str]:
        """The table's columns. Raises sqlite3.Error where there is no such table."""
        database = self._database()
        database.execute(f"SELECT 1 FROM {_quoted(self.table)} LIMIT 0")
        return [row[1] for row in database.execute(f"PRAGMA table_xinfo({_quoted(self.table)})") if row[6] != 1]

    def __len__(self) -> int:
        return len(self._rows)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    def location(self, index: int) -> str:
        return f"row {self._rows[index]} of {self.table} in {self.path}"

    def row(self, index: int) -> dict[str, Any]:
        values = self._database().execute(self._query, (int(self._rows[index]),)).fetchone()
        if values is None:
            raise DataError(f"{self.location(index)} cannot be read", ["it is no longer there"])
        return dict(zip(self.columns, values, strict=True))

    def _database(self) -> sqlite3.Connection:
        """A connection of this thread's."""
        if not hasattr(self._local, "database"):
            try:
                database = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
                configure: Any = getattr(database, "setconfig", None)  # from Python 3.12 on
                if configure is not None:  # a misspelt name in quotation marks is an error, and not a text
                    configure(getattr(sqlite3, "SQLITE_DBCONFIG_DQS_DML"), False)  # noqa: B009
                self._local.database = database
            except sqlite3.Error as error:
                raise DataError(f"{self.path} cannot be opened", [str(error)]) from error
        return self._local.database


def _number(columns: Sequence[str], where: str) -> str:
    """A name of SQLite's for the number of a row that no column hides."""
    taken = {name.lower() for name in columns}
    names = [name for name in ("rowid", "_rowid_", "oid") if name not in taken]
    if not names:
        raise DataError(f"the rows of {where} have no number", ["columns are called rowid, _rowid_ and oid"])
    return names[0]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
