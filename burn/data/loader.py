"""`Loader`: a dataset as batches, epoch after epoch.

    batches = Loader(train, 64, shuffle=True, workers=2)
    for epoch in range(5):
        for images, labels in batches:
            step(images, labels)

Seed and epoch determine the order. `state_dict()` gives the position, also within an epoch. A loader that loads it
continues with the same batches, bit for bit, for any number of workers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from burn.data.collate import collate
from burn.data.dataset import Indexed
from burn.data.memory import Memory
from burn.data.plan import Augment, Part, Piece, Plan, uneven
from burn.data.workers import Pool
from burn.errors import DataError, Problem


class Loader:
    """Batches of a dataset, as trees of numpy arrays.

    - `dataset`: anything with `__len__` and `__getitem__`; a tuple or dictionary of arrays (as `Memory`); or an iterable. An
      iterable must restart with `__iter__`; it is not shuffled and has at most one worker.
    - `shuffle`: another order for each epoch. `drop_last`: drops a smaller last batch.
    - `collate`: makes a batch from a list of rows (`Padded()` pads ragged rows).
    - `augment`: augment(row, generator) changes each row with random numbers that depend on the seed, the epoch and the row's
      position.
    - `workers`: processes that prefetch `prefetch` batches each; 0 reads in the caller.
    - `rank`, `world`: this loader takes every `world`-th row from the `rank`-th on, so the loaders of all ranks cover each row
      once.

    An iteration is one epoch; only one may run at a time. `epoch` counts the finished ones. Raises
    DataError for invalid settings, for a row that cannot be read (with the row and the file), and for a worker that has ended."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        collate: Callable[[Sequence[Any]], Any] = collate,
        augment: Augment | None = None,
        workers: int = 0,
        prefetch: int = 2,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        rows = Memory(dataset) if isinstance(dataset, (tuple, Mapping)) else dataset
        self._plan = Plan(rows, batch_size, shuffle, seed, drop_last, collate, augment, rank, world)
        self._workers, self._prefetch = workers, prefetch
        if problems := list(_problems(self._plan, workers, prefetch)):
            raise DataError("a loader cannot have these settings", problems)
        self.epoch = 0
        self._batch = 0  # of this epoch, those that were handed out
        self._loaded = False  # whether iterating goes on from there
        self._turn = 0  # which iteration it is
        self._pool: Pool | None = None
        self._end: Callable[[], Any] | None = None

    @property
    def dataset(self) -> Indexed | Iterable[Any]:
        return self._plan.rows

    @property
    def batch_size(self) -> int:
        return self._plan.batch_size

    def __repr__(self) -> str:
        plan = self._plan
        options = {"shuffle": plan.shuffle, "seed": plan.seed, "drop_last": plan.drop_last, "workers": self._workers}
        told = "".join(f", {name}={value}" for name, value in options.items() if value)
        return f"Loader({plan.rows!r}, batch_size={plan.batch_size}{told})"

    def __len__(self) -> int:
        """Batches of an epoch. Raises TypeError for what has no length."""
        if not self._plan.indexed:
            raise TypeError(f"a {type(self._plan.rows).__name__} does not say how many rows it has")
        return self._plan.count()

    def __iter__(self) -> Iterator[Any]:
        """An epoch from its first batch; after `load_state_dict`, what is left of that one."""
        return (piece.values for piece in self._iterated(Part()))

    def parts(self, part: Part) -> Iterator[Piece]:
        """The same epoch, but this process reads only a part of each batch. Order, augmentation and position are those of whole
        batches, so they do not depend on the number of processes. Batches of other collations than the default are read whole.
        Raises DataError if a batch has no equal blocks, or if the loader has a `world` already."""
        plan = self._plan
        if plan.world > 1:
            problem = Problem("a mesh divides batches itself", hint="leave out rank and world")
            raise DataError("this loader reads for one rank", [problem])
        plain = plan.join is collate and not part.whole_rest
        if plain and plan.batch_size % part.blocks:
            raise uneven(plan.batch_size, part.blocks, "another batch size")
        if plain and plan.indexed and len(self) and plan.size(len(self) - 1) % part.blocks:
            raise uneven(plan.size(len(self) - 1), part.blocks)
        return self._iterated(part)

    def _iterated(self, part: Part) -> Iterator[Piece]:
        if part != self._plan.part:
            self.close()
            self._plan = replace(self._plan, part=part)
        start, self._loaded = (self._batch if self._loaded else 0), False
        self._batch, self._turn = start, self._turn + 1
        batches = self._pooled().batches(self.epoch, start) if self._workers else self._plan.batches(self.epoch, start)
        return self._counted(batches, self._turn)

    def _counted(self, batches: Iterator[Any], turn: int) -> Iterator[Any]:
        while True:
            if turn != self._turn:
                raise DataError("a loader is gone over by one loop at a time", ["another one has begun since"])
            try:
                batch = next(batches, _END)
            except DataError:
                self.close()
                raise
            if batch is _END:
                break
            self._batch += 1
            yield batch
        self.epoch, self._batch = self.epoch + 1, 0

    def _pooled(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self._plan, self._workers, self._prefetch)
            self._end = weakref.finalize(self, self._pool.close)  # at the latest when Python ends
        return self._pool

    def close(self) -> None:
        """Ends the worker processes; iterating starts new ones."""
        if self._end is not None:
            self._end()
        self._pool = self._end = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- where it is -------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, int]:
        """Where it is: the epoch, how many of its batches were handed out, and what the order depends on."""
        return {"epoch": self.epoch, "batch": self._batch, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where another loader of the same rows was. Raises DataError, naming everything that differs."""
        own = self._identity()
        problems = [
            Problem(f"is {state.get(name, 'missing')}, here {value}", attribute=name)
            for name, value in own.items()
            if state.get(name) != value
        ]
        for name in ("epoch", "batch"):
            if type(state.get(name)) is not int or state[name] < 0:
                problems.append(Problem("is a number that is at least 0", attribute=name))
        if not problems and self._plan.indexed and state["batch"] > len(self):
            problems.append(Problem(f"is {state['batch']} of {len(self)}", attribute="batch"))
        if problems:
            raise DataError("this is the state of another loader", problems)
        self.epoch, self._batch, self._loaded = state["epoch"], state["batch"], True

    def _identity(self) -> dict[str, int]:
        plan = self._plan
        rows = {"rows": len(plan.rows)} if isinstance(plan.rows, Indexed) else {}
        settings = {"batch_size": plan.batch_size, "shuffle": int(plan.shuffle), "seed": plan.seed}
        return {**rows, **settings, "drop_last": int(plan.drop_last), "world": plan.world}


_END = object()


def _problems(plan: Plan, workers: int, prefetch: int) -> Iterator[Problem]:
    for name, value, least in (
        ("batch_size", plan.batch_size, 1),
        ("world", plan.world, 1),
        ("workers", workers, 0),
        ("prefetch", prefetch, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            yield Problem(f"is {value!r}, and no integer", attribute=name)
            return
        if value < least:
            yield Problem(f"is {value}, and at least {least}", attribute=name)
    if isinstance(plan.seed, bool) or not isinstance(plan.seed, (int, np.integer)):
        yield Problem(f"is {plan.seed!r}, and no integer", attribute="seed")
    if plan.world > 0 and not 0 <= plan.rank < plan.world:
        yield Problem(f"is {plan.rank}, of 0 to {plan.world - 1}", attribute="rank")
    if plan.indexed:
        return
    if not isinstance(plan.rows, Iterable):
        yield Problem(f"a {type(plan.rows).__name__} has no rows", attribute="dataset")
    elif iter(plan.rows) is plan.rows:
        yield Problem("an iterator can be gone over once only: give what makes it", attribute="dataset")
    if plan.shuffle:
        yield Problem("needs a dataset whose rows have numbers", attribute="shuffle")
    if workers > 1:
        yield Problem("a dataset that can only be gone over has one worker at most", attribute="workers")
