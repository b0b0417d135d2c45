"""The search of autotuning takes the fastest variant, and notes it. Times here are made up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from burn.codegen.backend import Built
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Variant
from burn.codegen.tuning.search import TRIED, Trial, search

pytestmark = pytest.mark.untuned


@dataclass(frozen=True)
class Size:
    number: int


@dataclass
class Parts:
    """A program of two parts, whose times are made up. See `burn.codegen.tuning.search.Subject`."""

    sizes: dict[str, list[Size]] = field(
        default_factory=lambda: {"a": [Size(0), Size(1), Size(2)], "b": [Size(5), Size(6)], "c": [Size(7)]}
    )
    built: list[dict[str, Size]] = field(default_factory=list)
    interleaved: int = 1
    worth = 0.95

    def text(self) -> str:
        return "a program of two parts"

    def variants(self) -> dict[str, list[Variant]]:
        return dict(self.sizes)

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        return set()

    def build(self, trials: Sequence[Mapping[str, Variant]]) -> list[Trial]:
        self.built += map(dict, trials)
        none = Built(b"", (), (), (), (), (), ())
        return [Trial(picked, none, {0: ("a",), 1: ("b",), 2: ()}) for picked in trials]  # type: ignore[arg-type]


class Times:
    """By the numbers of forms; what was measured is counted. slower: by how much each measurement is slower than the last."""

    def __init__(self, times: dict[int, float], slower: float = 1.0) -> None:
        self.times, self.slower, self.calls = times, slower, 0

    def __call__(self, trials: Sequence[Trial]) -> list[list[float]]:
        self.calls += 1
        factor = self.slower**self.calls
        return [[self.times[trial.program[key].number] * factor for key in ("a", "b")] + [1.0] for trial in trials]  # type: ignore[index]


NOWHERE = Book(None)


@pytest.mark.parametrize("interleaved", [0, 1, 3])
def test_the_fastest_is_taken(interleaved: int) -> None:
    times = Times({0: 1.0, 1: 0.5, 2: 0.7, 5: 1.0, 6: 1.1})
    assert search(Parts(interleaved=interleaved), "full", NOWHERE, times) == {"a": Size(1), "b": Size(5)}


def test_ties_and_a_little_less_keep_the_usual() -> None:
    assert search(Parts(), "full", NOWHERE, Times({0: 1.0, 1: 1.0, 2: 0.96, 5: 1.0, 6: 1.0})) == {
        "a": Size(0),
        "b": Size(5),
    }


def test_a_machine_that_slows_down_is_no_reason() -> None:
    times = Times({0: 1.0, 1: 0.9, 2: 0.8, 5: 1.0, 6: 0.99}, slower=1.5)
    assert search(Parts(), "full", NOWHERE, times) == {"a": Size(2), "b": Size(5)}


def test_what_is_not_faster_again_is_given_up() -> None:
    class Lucky(Times):
        def __call__(self, trials: Sequence[Trial]) -> list[list[float]]:
            found = super().__call__(trials)
            if self.calls == 3:  # both at once
                found[1][0] = 1.0
            return found

    times = Lucky({0: 1.0, 1: 0.9, 2: 0.8, 5: 1.0, 6: 0.5})
    assert search(Parts(), "full", NOWHERE, times) == {"a": Size(0), "b": Size(6)}


def test_a_program_that_is_no_faster_stays_as_it_is() -> None:
    class Elsewhere(Times):
        def __call__(self, trials: Sequence[Trial]) -> list[list[float]]:
            found = super().__call__(trials)
            if self.calls == 3:
                found[1][2] = 9.0  # a launch that no choice is about
            return found

    times = Elsewhere({0: 1.0, 1: 0.9, 2: 0.8, 5: 1.0, 6: 0.5})
    assert search(Parts(), "full", NOWHERE, times) == {"a": Size(0), "b": Size(5)}


def test_short_searches_try_few() -> None:
    sizes = {"a": [Size(n) for n in range(9)]}
    times = Times(dict.fromkeys(range(9), 1.0) | {5: 0.1, 3: 0.5})
    parts = Parts(sizes)

    def only_a(trials: Sequence[Trial]) -> list[list[float]]:
        return [[times.times[trial.program["a"].number], 0.0] for trial in trials]  # type: ignore[index]

    assert search(parts, "fast", NOWHERE, only_a) == {"a": Size(3)}
    assert TRIED["fast"] == 4
    assert search(Parts(sizes), "full", NOWHERE, only_a) == {"a": Size(5)}


def test_the_book(tmp_path: Path) -> None:
    book, times = Book(tmp_path / "a machine"), Times({0: 1.0, 1: 0.5, 2: 0.7, 5: 1.0, 6: 1.1})
    found = search(Parts(), "full", book, times)
    calls = times.calls
    assert search(Parts(), "full", book, times) == found and times.calls == calls
    (tmp_path / "a machine" / "a.json").write_text('{"shape": 3')
    assert search(Parts(), "full", book, times) == found and times.calls > calls


def test_results_used_least_recently_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.codegen.tuning.book.LIMIT", 3 * 4096)
    book = Book(tmp_path)
    for number, key in enumerate("abc"):
        book.put(key, Size(1), {0: 1.0}, 4)
        os.utime(tmp_path / f"{key}.json", (number, number))
    assert book.get("a", [Size(1)], 4) == Size(1)  # now the last used
    book.put_rest("program", ["d"], 4)
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "c.json", "rest-program.json"}
    small = Book(tmp_path, most=2 * 4096)  # a cache of this size
    small.put("e", Size(1), {0: 1.0}, 4)
    assert {path.name for path in tmp_path.iterdir()} == {"rest-program.json", "e.json"}


@pytest.mark.parametrize("interleaved", [1, 3])
def test_decisions_of_short_launches_keep_the_default(interleaved: int, tmp_path: Path) -> None:
    """Those of `b` take less than 5 % of the time: they are tried once, beside the first variant of `a`."""
    parts = Parts({"a": [Size(n) for n in range(6)], "b": [Size(10 + n) for n in range(12)]}, interleaved=interleaved)
    times = Times({0: 1.0, 1: 1.0, 2: 1.0, 3: 0.9, 4: 0.7, 5: 0.8} | dict.fromkeys(range(10, 22), 0.001))
    times.times[11] = 0.0001
    book = Book(tmp_path)
    assert search(parts, "full", book, times) == {"a": Size(4), "b": Size(10)}
    assert {trial["b"].number for trial in parts.built} == {10, 11} and len(parts.built) == 1 + 5 + 2
    calls = times.calls
    assert search(parts, "full", book, times) == {"a": Size(4), "b": Size(10)} and times.calls == calls
    alone = Parts({"b": parts.sizes["b"]})
    assert search(alone, "full", book, lambda trials: [[times.times[t.program["b"].number]] * 2 for t in trials]) == {  # type: ignore[index]
        "b": Size(11)
    }
