"""The plan of a loader: the order of rows, reading and collation. It is equal in every
process, so each worker can compute the rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from burn.data import order
from burn.data.collate import collate
from burn.data.dataset import Indexed, gather, location, read
from burn.errors import DataError, Problem

Augment = Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True)
class Part:
    """The blocks [first, last) of `blocks` equal ones, of each batch. whole_rest: a batch without equal blocks is read whole."""

    first: int = 0
    last: int = 1
    blocks: int = 1
    whole_rest: bool = False

    def of(self, rows: int) -> tuple[int, int]:
        """The rows [start, end) of a batch. Raises DataError if it has no equal blocks."""
        if rows % self.blocks:
            if not self.whole_rest:
                raise uneven(rows, self.blocks)
            return 0, rows
        each = rows // self.blocks
        return each * self.first, each * self.last


class Piece(NamedTuple):
    """The rows of a batch that this process reads: [start, end) of `total`."""

    values: Any
    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.start == self.total


def uneven(rows: int, blocks: int, hint: str = "drop_last=True, or another batch size") -> DataError:
    """The error of a batch without equal blocks."""
    problem = Problem(f"a batch of {rows} rows does not divide over {blocks} devices", hint=hint)
    return DataError("the batches do not fit the mesh", [problem])


@dataclass(frozen=True)
class Plan:
    """`rows` are batches' rows for one rank of `world`. part: the rows of each batch that this process reads."""

    rows: Indexed | Iterable[Any]
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    join: Callable[[Sequence[Any]], Any]
    augment: Augment | None
    rank: int
    world: int
    part: Part = Part()

    @property
    def indexed(self) -> bool:
        return isinstance(self.rows, Indexed)

    def count(self) -> int:
        """Batches of an epoch."""
        rows = len(range(self.rank, len(cast(Indexed, self.rows)), self.world))
        return rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)

    def batches(self, epoch: int, start: int, step: int = 1) -> Iterator[Piece]:
        """An epoch's batches number start, start + step ..."""
        if not self.indexed:
            yield from self._streamed(epoch, start)
            return
        source = cast(Indexed, self.rows)
        positions = order.permutation(len(source), self.seed, epoch) if self.shuffle else np.arange(len(source))
        positions = positions[self.rank :: self.world]
        for number in range(start, self.count(), step):
            first = number * self.batch_size
            rows = self.size(number)
            begin, end = self.part_of(rows)
            values = self._batch(source, positions[first + begin : first + end], epoch, first + begin)
            yield Piece(values, begin, end, rows)

    def size(self, number: int) -> int:
        """The rows of a batch."""
        rows = len(range(self.rank, len(cast(Indexed, self.rows)), self.world))
        return min(self.batch_size, rows - number * self.batch_size)

    def part_of(self, rows: int) -> tuple[int, int]:
        """The rows [start, end) of a batch that this process reads. A collation of the user's own receives all rows, because its
        result may depend on each."""
        return (0, rows) if self.join is not collate else self.part.of(rows)

    def _batch(self, source: Indexed, chosen: np.ndarray, epoch: int, first: int) -> Any:
        whole = gather(source, chosen) if self.join is collate and self.augment is None else None
        if whole is not None:
            return whole
        rows = [read(source, int(index)) for index in chosen]
        if self.augment is not None:
            for i, index in enumerate(chosen):
                rows[i] = self._augmented(rows[i], epoch, first + i, location(source, int(index)))
        return self.join(rows)

    def _augmented(self, row: Any, epoch: int, number: int, where: str) -> Any:
        assert self.augment is not None
        try:
            return self.augment(row, order.generator(self.seed, epoch, self.rank, number))
        except Exception as error:
            raise DataError(f"{where} cannot be augmented", [f"{type(error).__name__}: {error}"]) from error

    def _streamed(self, epoch: int, start: int) -> Iterator[Piece]:
        """Batches of an iterable."""
        rows = islice(iter(cast(Iterable[Any], self.rows)), self.rank, None, self.world)
        number = start * self.batch_size
        for _ in islice(rows, number):
            pass
        while True:
            taken: list[Any] = []
            try:
                taken.extend(islice(rows, self.batch_size))
            except DataError:
                raise
            except Exception as error:
                where = f"the row after {number + len(taken)} of this rank in {type(self.rows).__name__}"
                raise DataError(f"{where} cannot be read", [f"{type(error).__name__}: {error}"]) from error
            if not taken or (self.drop_last and len(taken) < self.batch_size):
                return
            count = len(taken)
            begin, end = self.part_of(count)
            own = taken[begin:end]
            if self.augment is not None:
                name, first = f"of {type(self.rows).__name__}", number + begin
                own = [self._augmented(r, epoch, first + i, f"row {first + i} {name}") for i, r in enumerate(own)]
            number += count
            yield Piece(self.join(own), begin, end, count)
