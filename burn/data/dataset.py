"""`Dataset`: rows by number, and transformations of datasets.

    train, held_out = Csv("houses.csv", types=float).map(to_arrays).split(0.9, 0.1, seed=0)

Every object with `__len__` and `__getitem__` is accepted as a dataset: a list, an array, a dataset of PyTorch. A subclass of
`Dataset` defines `__len__` and `row`. It inherits the methods, slices, negative indices, and errors that name the row and file.
Rows are read on access.
"""

from __future__ import annotations

import math
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np

from burn.data import order
from burn.data.collate import collate
from burn.errors import BurnError, DataError, OutOfRange, TypeMismatch


@runtime_checkable
class Indexed(Protocol):
    """The interface of everything that is accepted as a dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Dataset(ABC):
    """Rows by number. A subclass defines `__len__` and `row`, and optionally `location`, the name of a row in errors."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def row(self, index: int) -> Any:
        """The row of a number that is in range."""
        ...

    def location(self, index: int) -> str:
        """Where a row is from, for errors: "line 7 of houses.csv"."""
        return f"row {index} of {type(self).__name__}"

    def gather(self, indices: np.ndarray) -> Any:
        """The batch of these rows, where that is quicker than joining single ones; None where it is not."""
        return None

    def __getitem__(self, index: Any) -> Any:
        """A row, or for a slice the dataset of its rows. Raises OutOfRange, and DataError for a row that cannot be read."""
        if isinstance(index, slice):
            return Selected(self, np.arange(len(self))[index])
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeMismatch("the number of a row is an integer", [f"not {index!r:.80}"]) from None
        if not -len(self) <= number < len(self):
            raise OutOfRange(f"there is no row {number}", [f"{type(self).__name__} has {len(self)} rows"])
        number %= len(self)
        try:
            return self.row(number)
        except DataError:
            raise
        except Exception as error:
            raise unreadable(self, number, error) from error

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __add__(self, other: Indexed) -> Joined:
        """The rows of this one, then those of another."""
        return Joined(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"

    # ---- other datasets ----------------------------------------------------------------------------------------------
    def map(self, function: Callable[[Any], Any]) -> Mapped:
        """function(row) for every row, computed when it is asked for."""
        return Mapped(self, function)

    def select(self, indices: Sequence[int] | np.ndarray) -> Selected:
        """The rows of these numbers, in their order. Raises OutOfRange."""
        chosen = np.asarray(indices, dtype=np.int64).reshape(-1)
        wrong = chosen[(chosen < -len(self)) | (chosen >= len(self))]
        if wrong.size:
            raise OutOfRange("there are no such rows", [f"row {i} of {len(self)}" for i in wrong[:8]])
        return Selected(self, chosen % max(len(self), 1))

    def take(self, count: int) -> Selected:
        """The first rows, all of them if there are no more than `count`."""
        return self[: _amount("take", count)]

    def skip(self, count: int) -> Selected:
        """All but the first rows."""
        return self[_amount("skip", count) :]

    def shuffle(self, seed: int = 0) -> Selected:
        """The rows in an order that the seed decides. For another order in each epoch see `Loader(shuffle=True)`."""
        return Selected(self, order.permutation(len(self), seed))

    def sample(
        self, count: int, *, seed: int = 0, replace: bool = False, weights: Sequence[float] | np.ndarray | None = None
    ) -> Selected:
        """`count` rows drawn at random, each as likely as its weight says. Raises DataError for weights that are none, and
        where there are too few rows to draw from."""
        chances = None if weights is None else np.asarray(weights, np.float64)
        problems = []
        if chances is not None and chances.shape != (len(self),):
            problems.append(f"there are weights of shape {chances.shape} for {len(self)} rows")
        elif chances is not None and not (np.isfinite(chances).all() and (chances >= 0).all()):
            problems.append("a weight is a number that is finite and at least 0")
        else:
            there = len(self) if chances is None else int((chances > 0).sum())
            if _amount("sample", count) > there and (not replace or not there):
                problems.append(f"there are {there} to draw {count} from")
        if problems:
            raise DataError("rows cannot be drawn", problems)
        return Selected(self, order.draws(count, len(self), chances, replace, seed))

    def split(self, *parts: float, seed: int | None = None) -> tuple[Selected, ...]:
        """The rows in parts: by fractions whose sum is 1.0, or by lengths whose sum is that of all. With a seed the rows are
        shuffled before. Raises DataError."""
        rows = np.arange(len(self)) if seed is None else order.permutation(len(self), seed)
        return tuple(Selected(self, part) for part in np.split(rows, _ends(parts, len(self))))

    def window(self, size: int, stride: int = 1) -> Windows:
        """`size` rows after one another as one row, joined as in a batch; the next window begins `stride` rows later."""
        return Windows(self, size, stride)

    def cached(self) -> Cached:
        """Keeps in memory the rows that have been read, in each process of its own."""
        return Cached(self)


def read(source: Indexed, index: int) -> Any:
    """A row. Raises DataError that says which one could not be read."""
    try:
        return source[index]
    except DataError:
        raise
    except Exception as error:
        raise unreadable(source, index, error) from error


def unreadable(source: Indexed, index: int, error: Exception) -> DataError:
    """The error of a row that cannot be read."""
    what = "; ".join(map(str, error.problems)) if isinstance(error, BurnError) and error.problems else str(error)
    return DataError(f"{location(source, index)} cannot be read", [f"{type(error).__name__}: {what}"])


@contextmanager
def opening(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong while a file is looked at is an error that names it."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path} cannot be opened", [text or type(error).__name__]) from error


def location(source: Indexed, index: int) -> str:
    return source.location(index) if isinstance(source, Dataset) else f"row {index} of {type(source).__name__}"


def gather(source: Indexed, indices: np.ndarray) -> Any:
    return source.gather(indices) if isinstance(source, Dataset) else None


def _amount(what: str, count: int) -> int:
    if count < 0:
        raise TypeMismatch(f"{what} takes a number of rows that is at least 0", [f"it is {count}"])
    return count


def _ends(parts: Sequence[float], rows: int) -> list[int]:
    """Where each part but the last ends."""
    wrong = [part for part in parts if isinstance(part, bool) or not isinstance(part, (int, float, np.number))]
    if wrong:
        raise DataError("parts of a dataset are fractions or lengths", [f"not {part!r:.80}" for part in wrong])
    if any(not part >= 0 for part in parts):
        raise DataError("a part of a dataset is at least 0", [f"{part}" for part in parts if not part >= 0])
    if all(isinstance(part, (int, np.integer)) for part in parts):
        if sum(parts) != rows:
            raise DataError("lengths of parts sum to the number of rows", [f"{sum(parts)} of {rows}"])
        return [int(end) for end in np.cumsum(parts)[:-1]]
    if not math.isclose(sum(parts), 1.0, abs_tol=1e-6):
        raise DataError("fractions of a dataset sum to 1", [f"{sum(parts)}"])
    return [round(float(end) * rows) for end in np.cumsum(parts)[:-1]]


class Mapped(Dataset):
    """A function of every row."""

    def __init__(self, source: Indexed, function: Callable[[Any], Any]) -> None:
        self.source, self.function = source, function

    def __len__(self) -> int:
        return len(self.source)

    def row(self, index: int) -> Any:
        return self.function(read(self.source, index))

    def location(self, index: int) -> str:
        return location(self.source, index)


class Selected(Dataset):
    """Some rows of another dataset, in an order of its own."""

    def __init__(self, source: Indexed, indices: np.ndarray) -> None:
        if isinstance(source, Selected):  # selections of selections are one
            source, indices = source.source, source.indices[indices]
        self.source, self.indices = source, indices

    def __len__(self) -> int:
        return len(self.indices)

    def row(self, index: int) -> Any:
        return read(self.source, int(self.indices[index]))

    def location(self, index: int) -> str:
        return location(self.source, int(self.indices[index]))

    def gather(self, indices: np.ndarray) -> Any:
        return gather(self.source, self.indices[indices])


class Joined(Dataset):
    """Several datasets after one another."""

    def __init__(self, *sources: Indexed) -> None:
        self.sources = [inner for s in sources for inner in (s.sources if isinstance(s, Joined) else [s])]
        self._ends = np.cumsum([len(source) for source in self.sources])

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.sources else 0

    def _found(self, index: int) -> tuple[Indexed, int]:
        which = int(np.searchsorted(self._ends, index, side="right"))
        source = self.sources[which]
        return source, index - int(self._ends[which]) + len(source)

    def row(self, index: int) -> Any:
        return read(*self._found(index))

    def location(self, index: int) -> str:
        return location(*self._found(index))


class Windows(Dataset):
    """Rows that follow one another as one row."""

    def __init__(self, source: Indexed, size: int, stride: int) -> None:
        wrong = [f"{name} is {value}" for name, value in {"size": size, "stride": stride}.items() if value < 1]
        if wrong:
            raise TypeMismatch("windows have a size and a stride of at least 1", wrong)
        self.source, self.size, self.stride = source, size, stride

    def __len__(self) -> int:
        return max(0, (len(self.source) - self.size) // self.stride + 1)

    def row(self, index: int) -> Any:
        first = index * self.stride
        batch = gather(self.source, np.arange(first, first + self.size))
        return collate([read(self.source, i) for i in range(first, first + self.size)]) if batch is None else batch

    def gather(self, indices: np.ndarray) -> Any:
        positions = indices[:, None] * self.stride + np.arange(self.size)
        return gather(self.source, positions)

    def location(self, index: int) -> str:
        return f"{location(self.source, index * self.stride)} (the first of a window of {self.size})"


class Cached(Dataset):
    """Keeps the rows that have been read."""

    def __init__(self, source: Indexed) -> None:
        self.source = source
        self._rows: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.source)

    def __getstate__(self) -> dict[str, Any]:  # another process reads its own
        return {**self.__dict__, "_rows": {}}

    def row(self, index: int) -> Any:
        if index not in self._rows:
            self._rows[index] = read(self.source, index)
        return self._rows[index]

    def location(self, index: int) -> str:
        return location(self.source, index)
