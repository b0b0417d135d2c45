"""Datasets derived from others, and batches of rows, against plain lists."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burn import data
from burn.data import order
from burn.errors import DataError, OutOfRange, TypeMismatch

ROWS = [10, 11, 12, 13, 14, 15, 16]


def rows(dataset: data.Indexed) -> list[Any]:
    return [int(dataset[i]) for i in range(len(dataset))]


@pytest.fixture
def seven() -> data.Memory:
    return data.Memory(np.array(ROWS))


def test_selections(seven: data.Memory) -> None:
    assert rows(seven) == list(map(int, seven)) == ROWS
    assert rows(seven.take(3)) == ROWS[:3] and rows(seven.take(99)) == ROWS and rows(seven.take(0)) == []
    assert rows(seven.skip(3)) == ROWS[3:] and rows(seven.skip(99)) == []
    assert rows(seven[1:6:2]) == ROWS[1:6:2] and rows(seven[::-1]) == ROWS[::-1]
    assert seven[-1] == 16 and rows(seven.select([2, -1, 2])) == [12, 16, 12]
    assert rows(seven.map(lambda x: 2 * x)[2:4]) == [24, 26]
    assert rows(seven.take(2) + seven.skip(6) + [1, 2]) == [10, 11, 16, 1, 2]
    assert isinstance(seven[1:][1:].source, data.Memory), "a selection of a selection is one"


def test_numbers_out_of_range_are_named(seven: data.Memory) -> None:
    for index in (7, -8):
        with pytest.raises(OutOfRange, match=f"there is no row {index}"):
            seven[index]
    with pytest.raises(OutOfRange, match="row 9 of 7"):
        seven.select([1, 9])
    with pytest.raises(TypeMismatch, match="at least 0"):
        seven.take(-1)
    with pytest.raises(TypeMismatch, match="stride is 0"):
        seven.window(2, 0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.integers(-(2**70), 2**70))
def test_shuffles_are_permutations_by_seed(count: int, seed: int) -> None:
    dataset = data.Memory(np.arange(count))
    shuffled = rows(dataset.shuffle(seed))
    assert sorted(shuffled) == list(range(count)) and shuffled == rows(dataset.shuffle(seed))
    assert count < 12 or shuffled != rows(dataset.shuffle(seed + 1))


def test_orders_stay_what_they_are() -> None:
    """Checkpoints of today are resumed with tomorrow's versions: the hash is splitmix64, here in Python's own numbers."""

    def mixed(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    golden, state = 0x9E3779B97F4A7C15, 0
    for part in (7, 2):
        state = mixed((state + part + golden) % 2**64)
    wanted = [mixed((state + n * golden) % 2**64) for n in range(1, 9)]
    assert order.words(8, 7, 2).tolist() == wanted
    assert order.permutation(8, 7, 2).tolist() == sorted(range(8), key=wanted.__getitem__)


def test_orders_are_even() -> None:
    firsts = np.bincount([order.permutation(4, seed)[0] for seed in range(4000)], minlength=4)
    assert (abs(firsts - 1000) < 150).all()
    u = order.uniform(10_000, 3)
    assert abs(u.mean() - 0.5) < 0.02 and u.min() >= 0 and u.max() < 1


def test_samples(seven: data.Memory) -> None:
    drawn = rows(seven.sample(5, seed=1))
    assert len(set(drawn)) == 5 and set(drawn) <= set(ROWS) and drawn == rows(seven.sample(5, seed=1))
    assert len(rows(seven.sample(50, replace=True))) == 50
    weights = [0, 1, 0, 3, 0, 0, 0]
    counts = np.bincount(rows(seven.sample(4000, replace=True, weights=weights)), minlength=17)
    assert counts[11] + counts[13] == 4000 and abs(counts[13] - 3000) < 150
    assert sorted(rows(seven.sample(2, weights=weights))) == [11, 13]
    first = [rows(seven.sample(1, seed=s, weights=weights))[0] for s in range(400)]
    assert abs(first.count(13) - 300) < 45


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 8}, "7 to draw 8 from"),
        ({"count": 3, "weights": [0, 1, 0, 3, 0, 0, 0]}, "2 to draw 3 from"),
        ({"count": 1, "weights": [1.0]}, "shape"),
        ({"count": 1, "weights": [1, 1, 1, 1, 1, 1, -1]}, "at least 0"),
        ({"count": 1, "weights": [1, 1, 1, 1, 1, 1, np.nan]}, "finite"),
        ({"count": 1, "replace": True, "weights": [0] * 7}, "0 to draw"),
    ],
)
def test_samples_that_cannot_be_drawn(seven: data.Memory, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        seven.sample(**arguments)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 50), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.one_of(st.none(), st.integers(0, 9)))
def test_splits_are_partitions(count: int, shares: list[int], seed: int | None) -> None:
    dataset = data.Memory(np.arange(count))
    parts = dataset.split(*(share / sum(shares) for share in shares), seed=seed)
    joined = [row for part in parts for row in rows(part)]
    assert len(parts) == len(shares) and sorted(joined) == list(range(count))
    assert seed is not None or joined == list(range(count))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - count * share / sum(shares)) <= 1


def test_splits_by_lengths(seven: data.Memory) -> None:
    assert [rows(part) for part in seven.split(3, 4)] == [ROWS[:3], ROWS[3:]]
    for parts, message in (((3, 3), "6 of 7"), ((0.5, 0.6), r"1\.1"), ((-1, 8), "-1")):
        with pytest.raises(DataError, match=message):
            seven.split(*parts)


@pytest.mark.parametrize(("size", "stride", "count"), [(3, 1, 5), (3, 2, 3), (7, 1, 1), (8, 1, 0), (1, 3, 3)])
def test_windows(seven: data.Memory, size: int, stride: int, count: int) -> None:
    wanted = [ROWS[i : i + size] for i in range(0, 7 - size + 1, stride)][:count]
    assert len(wanted) == count
    for source in (seven, data.Memory(ROWS)):  # gathered at once, and row by row
        assert [w.tolist() for w in source.window(size, stride)] == wanted
    if count > 1:
        (batch,) = data.Loader(seven.window(size, stride), 99)
        assert batch.tolist() == wanted


def test_rows_are_read_once_when_they_are_cached() -> None:
    read: list[int] = []
    kept = data.Memory([1, 2, 3]).map(lambda row: read.append(row) or row).cached()
    assert [kept[1], kept[1], *kept] == [2, 2, 1, 2, 3] and read == [2, 1, 3]
    copy = pickle.loads(pickle.dumps(data.Memory([1]).cached()))
    assert copy._rows == {}


def test_memory() -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1])
    pairs, named = data.Memory((x, {"y": y})), data.Memory({"x": x, "words": np.array(["a", "b", "c"])})
    assert pairs[1][0].tolist() == [2.0, 3.0] and pairs[1][1]["y"] == 0 and named[2]["words"] == "c"
    (batch,) = data.Loader(named, 3)
    assert batch["words"] == ["a", "b", "c"] and batch["x"].tolist() == x.tolist()
    with pytest.raises(DataError, match=r"'0': has 3 rows(.|\n)*'1\.z': has 2 rows"):
        data.Memory((x, {"z": x.T}))
    with pytest.raises(DataError, match="no rows"):
        data.Memory((x, 3.0))


# ---- batches -------------------------------------------------------------------------------------------------------------
@dataclasses.dataclass
class Row:
    name: str
    values: tuple[float, int]


def test_collation() -> None:
    batch = data.collate(
        [{"a": 1, "b": ("x", True), "c": np.float64(1)}, {"c": np.float64(2), "b": ("y", False), "a": 2.5}]
    )
    assert batch["a"].tolist() == [1, 2.5] and batch["a"].dtype == np.float32 and batch["c"].dtype == np.float64
    assert batch["b"][0] == ["x", "y"] and batch["b"][1].dtype == np.bool_
    made = data.collate([Row("a", (1.0, 2)), Row("b", (3.0, 4))])
    assert made.name == ["a", "b"] and made.values[0].dtype == np.float32 and made.values[1].dtype == np.int64
    assert data.collate([None, None]) == [None, None] and data.collate([[1], [2]]).shape == (2, 1)
    assert data.collate([["a"], ["b", "c"]]) == [["a"], ["b", "c"]]


def test_rows_that_make_no_batch() -> None:
    with pytest.raises(DataError, match=r"'x'(.|\n)*\[2\], \[3\](.|\n)*Padded"):
        data.collate([{"x": [1, 2]}, {"x": [1, 2, 3]}])
    with pytest.raises(DataError, match="one has a, another b"):
        data.collate([{"a": 1}, {"b": 1}])
    with pytest.raises(DataError, match="something else"):
        data.collate([(1, 2), 3])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=5), st.integers(1, 4))
def test_padding(lists: list[list[int]], multiple: int) -> None:
    batch, own = data.Padded(-9, multiple=multiple, mask=True)(lists)
    longest = max(map(len, lists))
    assert batch.shape == own.shape and batch.shape[1] in range(longest, longest + multiple)
    assert batch.shape[1] % multiple == 0
    for row, mask, values in zip(batch, own, lists, strict=True):
        assert row[mask].tolist() == values and (row[~mask] == -9).all()


def test_padding_of_images_and_labels() -> None:
    images, labels = data.Padded()([(np.ones((2, 3, 1), np.uint8), 4), (np.ones((1, 5, 1), np.uint8), 5)])
    assert images.shape == (2, 2, 5, 1) and images.dtype == np.uint8 and images.sum() == 11
    assert labels.tolist() == [4, 5]
    with pytest.raises(DataError, match="shapes"):
        data.Padded()([np.ones(2), np.ones((2, 2))])


# ---- rows that cannot be read ---------------------------------------------------------------------------------------------
def test_a_row_that_cannot_be_read_is_named(seven: data.Memory) -> None:
    inverse = seven.map(lambda row: 1 / (int(row) - 13))
    views = {
        "plain": (inverse, 3),
        "selected": (inverse.shuffle().select([list(inverse.shuffle().indices).index(3)]), 0),
        "joined": (seven + inverse, 10),
        "cached": (inverse.cached(), 3),
        "window": (inverse.window(2), 3),
    }
    for view, index in views.values():
        with pytest.raises(
            DataError, match=r"row 3 of Memory cannot be read(.|\n)*ZeroDivisionError: division by zero"
        ) as e:
            view[index]
        assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_a_class_of_ones_own() -> None:
    class Squares(data.Dataset):
        def __len__(self) -> int:
            return 5

        def row(self, index: int) -> int:
            return index**2 if index != 4 else [][index]

    assert rows(Squares().take(4)) == [0, 1, 4, 9] and repr(Squares()) == "Squares(5 rows)"
    with pytest.raises(DataError, match="row 4 of Squares cannot be read"):
        list(Squares())
    assert isinstance([1], data.Indexed) and not isinstance(iter([1]), data.Indexed)
