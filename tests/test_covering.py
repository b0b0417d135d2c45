"""Covering subsets have all that must occur, and little more."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, product

import pytest

from tests.covering import chosen, covering

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("axes", [(2, 2, 2), (5, 4, 5, 2, 2), (3,) * 7, (9, 1, 4), (6,)], ids=str)
def test_every_pair_occurs(axes: tuple[int, ...]) -> None:
    rows = list(product(*map(range, axes)))
    kept = covering(rows)
    assert kept == covering(rows) == sorted(set(kept))
    wanted = {pair for row in rows for pair in combinations(enumerate(row), min(2, len(axes)))}
    assert {pair for i in kept for pair in combinations(enumerate(rows[i]), min(2, len(axes)))} == wanted
    largest = sorted(axes)[-2:]
    assert len(kept) <= 2 * largest[0] * largest[-1]


def test_only_what_is_there_must_occur() -> None:
    assert covering([("a", 1), ("a", 1), ("b", 2)]) == [0, 2]
    assert covering([("a", 1), ("a", 2), ("b", 2)], strength=1) == [0, 2]
    assert covering([]) == [] and chosen([set(), set()]) == []


def test_the_rest_is_slow(pytester: pytest.Pytester) -> None:
    """Two axes: each value; three: each pair; traits: each pair of theirs. Slow cases cover nothing."""
    pytester.makeini("[pytest]\nmarkers = slow\n covering")
    pytester.makeconftest(
        "import pytest\nfrom tests.covering import mark_rest\n"
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_collection_modifyitems(items): mark_rest(items)\n"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.covering
        @pytest.mark.parametrize("b", range(3))
        @pytest.mark.parametrize(("a", "c"), [(1, 1), (2, 2), (3, 1), pytest.param(4, 4, marks=pytest.mark.slow)])
        def test_two(a, b, c): pass

        @pytest.mark.covering
        @pytest.mark.parametrize("c", range(2))
        @pytest.mark.parametrize("b", range(2))
        @pytest.mark.parametrize("a", range(2))
        def test_three(a, b, c): pass

        @pytest.mark.covering(of=lambda a, b: (a % 2, b))
        @pytest.mark.parametrize("b", "xy")
        @pytest.mark.parametrize("a", range(4))
        def test_traits(a, b): pass
        """
    )
    items, _ = pytester.inline_genitems()
    kept: dict[str, list[dict[str, object]]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("slow"):
            kept[item.originalname].append(item.callspec.params)
    two, three, traits = (kept[f"test_{name}"] for name in ("two", "three", "traits"))
    assert [case["a"] for case in two] == [1, 2, 3] and {case["b"] for case in two} == {0, 1, 2}
    assert len(three) == 4
    assert [(case["a"], case["b"]) for case in traits] == [(0, "x"), (1, "y"), (2, "y"), (3, "x")]
