"""The plan of a loader: the order of rows, reading and collation. It is equal in every
process, so each worker can compute the rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np

from burn.data import order
from burn.data.collate import collate
from burn.data.dataset import Indexed, gather, location, read
from burn.errors import DataError

Augment = Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True)
class Plan:
    """`rows` are batches' rows for one rank of `world`."""

    rows: Indexed | Iterable[Any]
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    join: Callable[[Sequence[Any]], Any]
    augment: Augment | None
    rank: int
    world: int

    @property
    def indexed(self) -> bool:
        return isinstance(self.rows, Indexed)

    def count(self) -> int:
        """Batches of an epoch."""
        rows = len(range(self.rank, len(cast(Indexed, self.rows)), self.world))
        return rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)

    def batches(self, epoch: int, start: int, step: int = 1) -> Iterator[Any]:
        """An epoch's batches number start, start + step ..."""
        if not self.indexed:
            yield from self._streamed(epoch, start)
            return
        source = cast(Indexed, self.rows)
        positions = order.permutation(len(source), self.seed, epoch) if self.shuffle else np.arange(len(source))
        positions = positions[self.rank :: self.world]
        for number in range(start, self.count(), step):
            first = number * self.batch_size
            yield self._batch(source, positions[first : first + self.batch_size], epoch, first)

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

    def _streamed(self, epoch: int, start: int) -> Iterator[Any]:
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
            if self.augment is not None:
                name = f"of {type(self.rows).__name__}"
                taken = [self._augmented(r, epoch, number + i, f"row {number + i} {name}") for i, r in enumerate(taken)]
            number += len(taken)
            yield self.join(taken)
