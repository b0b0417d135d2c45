"""The loader: orders, shares of ranks, going on in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burn import data
from burn.errors import DataError

numbers = st.integers


def seen(loader: data.Loader) -> list[int]:
    return [int(row) for batch in loader for row in batch]


def test_batches() -> None:
    x, y = np.arange(10.0).reshape(5, 2), np.arange(5)
    loader = data.Loader((x, y), 2)
    assert len(loader) == 3 and [b[0].shape for b in loader] == [(2, 2), (2, 2), (1, 2)]
    assert [b[1].tolist() for b in loader] == [[0, 1], [2, 3], [4]] and loader.epoch == 2
    assert len(data.Loader((x, y), 2, drop_last=True)) == len(list(data.Loader((x, y), 2, drop_last=True))) == 2
    (named,) = data.Loader({"x": x}, 9)
    assert named["x"].tolist() == x.tolist()
    assert [b.tolist() for b in data.Loader([1, 2, 3], 2)] == [[1, 2], [3]]
    assert list(data.Loader([], 2)) == [] and list(data.Loader(["a", "b"], 2)) == [["a", "b"]]
    ragged = data.Loader([[1], [2, 3]], 2, collate=data.Padded())
    assert [b.tolist() for b in ragged] == [[[1, 0], [2, 3]]]


@settings(max_examples=40, deadline=None)
@given(numbers(0, 40), numbers(1, 9), numbers(1, 5), st.booleans(), st.booleans(), numbers(0, 99))
def test_ranks_share_the_rows_out(count: int, size: int, world: int, shuffle: bool, drop: bool, seed: int) -> None:
    loaders = [
        data.Loader(np.arange(count), size, shuffle=shuffle, seed=seed, drop_last=drop, rank=r, world=world)
        for r in range(world)
    ]
    for _ in range(2):
        shares = [[b.tolist() for b in loader] for loader in loaders]
        assert [len(share) for share in shares] == list(map(len, loaders))
        rows = [row for share in shares for batch in share for row in batch]
        assert len(set(rows)) == len(rows) and set(rows) <= set(range(count))
        assert drop or len(rows) == count
        assert not drop or all(len(batch) == size for share in shares for batch in share)


@settings(max_examples=40, deadline=None)
@given(numbers(1, 40), numbers(1, 9), numbers(0, 2), numbers(0, 40), st.booleans())
def test_going_on_in_the_middle(count: int, size: int, epochs: int, batches: int, shuffle: bool) -> None:
    def new() -> data.Loader:
        return data.Loader(np.arange(count), size, shuffle=shuffle, seed=3, augment=noisy)

    first = new()
    for _ in range(epochs):
        list(first)
    stopped = iter(first)
    for _ in range(min(batches, len(first))):
        next(stopped)
    state = first.state_dict()
    rest = [b.tobytes() for b in stopped] + [b.tobytes() for _ in range(2) for b in first]
    second = new()
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert [b.tobytes() for _ in range(3) for b in second] == rest


def noisy(row: Any, generator: np.random.Generator) -> Any:
    return row + generator.random()


def test_epochs_differ_and_seeds_decide() -> None:
    loader, again, other = (data.Loader(np.arange(50), 7, shuffle=True, seed=s) for s in (0, 0, 1))
    first, second = seen(loader), seen(loader)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    assert [seen(again), seen(again)] == [first, second] and seen(other) != first
    drawn = [float(b[0]) for _ in range(2) for b in data.Loader(np.zeros(3), augment=noisy)]
    assert len(set(drawn)) == 3, "not for every epoch anew: epochs of one loader differ"


def test_a_look_at_the_first_batch_takes_none() -> None:
    loader = data.Loader(np.arange(10), 3, shuffle=True)
    first = next(iter(loader))
    assert loader.state_dict()["batch"] == 1
    assert (next(iter(loader)) == first).all() and len(list(loader)) == 4 and loader.epoch == 1
    assert loader.state_dict()["batch"] == 0


def test_one_loop_at_a_time() -> None:
    loader = data.Loader(np.arange(10), 3)
    first, second = iter(loader), iter(loader)
    assert next(second).tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="one loop at a time"):
        next(first)
    assert len(list(second)) == 3 and loader.epoch == 1


def test_states_of_other_loaders() -> None:
    state = data.Loader(np.arange(10), 3).state_dict()
    with pytest.raises(DataError, match=r"'rows': is 10, here 12(.|\n)*'batch_size': is 3, here 4"):
        data.Loader(np.arange(12), 4).load_state_dict(state)
    for wrong in ({"epoch": -1}, {"batch": 5}, {"batch": "1"}, {"batch": True}):
        with pytest.raises(DataError, match=next(iter(wrong))):
            data.Loader(np.arange(10), 3).load_state_dict({**state, **wrong})
    with pytest.raises(DataError, match="missing"):
        data.Loader(np.arange(10), 3).load_state_dict({})


class Stream:
    """Numbers that can only be gone over."""

    def __iter__(self) -> Iterator[int]:
        yield from range(10)


def test_what_can_only_be_gone_over() -> None:
    assert [b.tolist() for b in data.Loader(Stream(), 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert seen(data.Loader(Stream(), 4, drop_last=True)) == list(range(8))
    assert sorted(r for rank in range(3) for r in seen(data.Loader(Stream(), 2, rank=rank, world=3))) == list(range(10))
    loader = data.Loader(Stream(), 4, augment=noisy)
    started = iter(loader)
    next(started)
    other = data.Loader(Stream(), 4, augment=noisy)
    other.load_state_dict(loader.state_dict())
    assert [b.tolist() for b in other] == [b.tolist() for b in started]
    with pytest.raises(TypeError, match="how many"):
        len(loader)


@pytest.mark.parametrize(
    ("dataset", "arguments", "message"),
    [
        ([1], {"batch_size": 0, "workers": -1, "rank": 2, "world": 2}, r"batch_size(.|\n)*workers(.|\n)*rank"),
        ([1], {"prefetch": 0}, "prefetch"),
        (Stream(), {"shuffle": True, "workers": 2}, r"shuffle(.|\n)*workers|workers(.|\n)*shuffle"),
        (iter([1]), {}, "gone over once"),
        (3, {}, "a int has no rows"),
    ],
)
def test_settings_that_do_not_fit(dataset: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        data.Loader(dataset, **arguments)


def test_rows_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\nnone\n3\n")
    with pytest.raises(DataError, match=r"line 3 of .*rows\.csv cannot be read(.|\n)*column 'x': 'none' is no float"):
        list(data.Loader(data.Csv(path, types=float).shuffle(), 2))
    with pytest.raises(DataError, match=r"line 2 of .* cannot be augmented(.|\n)*TypeError"):
        list(data.Loader(data.Csv(path), augment=noisy))

    def broken() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    class Broken(Stream):
        def __iter__(self) -> Iterator[int]:
            return broken()

    with pytest.raises(DataError, match=r"the row after .* Broken(.|\n)*OSError: gone"):
        list(data.Loader(Broken(), 3))
