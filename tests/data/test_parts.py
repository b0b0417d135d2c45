"""Batches in parts: the processes of a training together read what one process reads, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.data import Loader, Padded
from burn.data.plan import Part
from burn.errors import DataError


class Read:
    """Rows that count how often each is read."""

    def __init__(self, count: int) -> None:
        self.count, self.read = count, list[int]()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return {"x": np.full(2, index, np.float32), "n": index}


def jittered(row: Any, generator: np.random.Generator) -> Any:
    return {**row, "x": row["x"] + generator.random(2).astype(np.float32)}


def loader(**options: Any) -> Loader:
    return Loader(Read(24), 8, shuffle=True, seed=3, augment=jittered, **options)


def joined(loaders: list[Loader], parts: list[Part]) -> list[dict[str, np.ndarray]]:
    """The batches of one epoch, put together from their parts."""
    found = []
    for pieces in zip(*(each.parts(part) for each, part in zip(loaders, parts, strict=True)), strict=True):
        assert [p.start for p in pieces] == sorted(p.start for p in pieces)
        found.append({name: np.concatenate([p.values[name] for p in pieces]) for name in pieces[0].values})
    return found


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_the_order_is_that_of_one_process(count: int) -> None:
    whole, several = loader(), [loader() for _ in range(count)]
    for _ in range(2):
        parts = [Part(rank, rank + 1, count) for rank in range(count)]
        for one, other in zip(list(whole), joined(several, parts), strict=True):
            np.testing.assert_array_equal(one["n"], other["n"])
            np.testing.assert_array_equal(one["x"], other["x"])
    assert [len(each.dataset.read) for each in several] == [48 // count] * count  # type: ignore[union-attr]
    assert {str(each.state_dict()) for each in several} == {str(whole.state_dict())}


def test_resumed_in_other_parts() -> None:
    whole = list(loader())
    first, second = loader(), loader()
    pieces = iter(first.parts(Part(0, 1, 2)))
    next(pieces)
    second.load_state_dict(first.state_dict())
    rest = joined([second], [Part(0, 4, 4)])
    assert [b["n"].tolist() for b in rest] == [b["n"].tolist() for b in whole[1:]]


def test_by_worker_processes() -> None:
    whole = list(Loader(np.arange(24.0)[:, None], 8, shuffle=True))
    with Loader(np.arange(24.0)[:, None], 8, shuffle=True, workers=1) as read:
        pieces = list(read.parts(Part(1, 2, 4)))
    assert [(p.start, p.end, p.total) for p in pieces] == [(2, 4, 8)] * 3
    for piece, batch in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(piece.values, batch[2:4])


def test_streams() -> None:
    rows = [np.array([float(i)]) for i in range(11)]
    read = Loader(Stream(rows), 4)
    pieces = list(read.parts(Part(1, 2, 2, whole_rest=True)))
    assert [p.values.tolist() for p in pieces] == [[[2], [3]], [[6], [7]], [[8], [9], [10]]]
    assert [p.is_whole for p in pieces] == [False, False, True]
    with pytest.raises(DataError, match="a batch of 3 rows does not divide over 2 devices"):
        list(Loader(Stream(rows), 4).parts(Part(1, 2, 2)))


class Stream:
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(self.rows)


def test_other_collations_read_whole_batches() -> None:
    rows = [np.arange(1.0 + i) for i in range(6)]
    pieces = list(Loader(rows, 3, collate=Padded(0)).parts(Part(0, 1, 3)))
    assert [(p.values.shape, p.is_whole) for p in pieces] == [((3, 3), True), ((3, 6), True)]


def test_batches_that_do_not_divide_are_refused_at_once() -> None:
    with pytest.raises(DataError, match="a batch of 8 rows does not divide over 3 devices"):
        loader().parts(Part(0, 1, 3))
    with pytest.raises(DataError, match=r"a batch of 2 rows does not divide over 4 devices .drop_last=True"):
        Loader(np.zeros((10, 1)), 8).parts(Part(0, 1, 4))
    assert len(list(Loader(np.zeros((10, 1)), 8, drop_last=True).parts(Part(0, 1, 4)))) == 1
    assert [p.is_whole for p in Loader(np.zeros((10, 1)), 8).parts(Part(0, 1, 4, whole_rest=True))] == [False, True]
    with pytest.raises(DataError, match="reads for one rank"):
        loader(world=2).parts(Part())
