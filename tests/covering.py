"""A covering subset of a table of cases: `@pytest.mark.covering` on a parametrised test keeps it in the default run.

The whole table is the cross product of axes (`parametrize`), and most of its cases prove the same thing. The default run has a
subset in which every required combination occurs at least once; the other cases are marked `slow`. Required are:

    each value of each axis
    each pair of values of two axes, where there are three axes or more (pairwise testing: Cohen et al., "The AETG System",
        IEEE Transactions on Software Engineering 23(7), 1997)
    with `@pytest.mark.covering(of=traits)`, instead of the pairs of axes, each pair of values of two traits: `traits` takes the
        parameters that it names, and returns a tuple of values that can be hashed
    with `@pytest.mark.covering(pairs=False)`, no pairs
    with `@pytest.mark.covering(each=parts)`, instead of the values of axes and their pairs, each value of each element of the
        tuple that `parts` returns

Only what the table has must occur. The subset is chosen greedily and depends on the table alone.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from heapq import heapify, heappop, heapreplace
from itertools import combinations
from typing import Any

import pytest


def covering(rows: Sequence[Sequence[Hashable]], strength: int = 2) -> list[int]:
    """Which rows, in their order, have every combination of `strength` values (of as many columns) that some row has."""
    return chosen([set(combinations(enumerate(row), min(strength, len(row)))) for row in rows])


def chosen(goals: Sequence[set[Any]]) -> list[int]:
    """Numbers of elements, in order, that together have every goal of any element.

    The greedy step takes the first element with most of the remaining goals. Elements whose goals all occur in others are
    dropped at the end."""
    met, taken = set[Any](), list[int]()
    # Numbers of goals that remain only fall: an element whose number is what it was is the best (Minoux, "Accelerated greedy
    # algorithms for maximizing submodular set functions", 1978).
    heap = [(-len(goal), i) for i, goal in enumerate(goals)]
    heapify(heap)
    while heap and (count := -heap[0][0]):
        i = heap[0][1]
        remain = len(goals[i] - met)
        if remain == count:
            heappop(heap)
            taken.append(i)
            met |= goals[i]
        else:
            heapreplace(heap, (-remain, i))
    times = Counter(goal for i in taken for goal in goals[i])
    for i in list(taken):
        if all(times[goal] > 1 for goal in goals[i]):
            taken.remove(i)
            times.subtract(goals[i])
    return sorted(taken)


def mark_rest(items: Sequence[pytest.Item]) -> None:
    """Marks as `slow` what the covering subsets of marked tables leave out. An item that is slow by itself is no part of one."""
    tables: dict[tuple[str, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("covering"):
            assert hasattr(item, "callspec"), f"{item.nodeid} has no parameters, so nothing to cover"
            if not item.get_closest_marker("slow"):
                tables[item.nodeid.partition("::")[0], item.originalname].append(item)
    for table in tables.values():
        axes = list(dict.fromkeys(_together(table[0], name) for name in sorted(table[0].callspec.params)))
        kept = set(chosen([_goals(item, axes) for item in table]))
        for index, item in enumerate(table):
            if index not in kept:
                item.add_marker(pytest.mark.slow)


def _goals(item: pytest.Function, axes: list[tuple[str, ...]]) -> set[Any]:
    """The goals that the case covers. axes: the names of each `parametrize` of the test."""
    marker, spec = item.get_closest_marker("covering"), item.callspec
    assert marker is not None and not marker.args and marker.kwargs.keys() <= {"of", "pairs", "each"}, (
        f"{item.nodeid}: {marker}"
    )
    if "each" in marker.kwargs:
        return set(enumerate(_given(item, marker.kwargs["each"])))
    # values are compared by identity, as they need not be hashable: `parametrize` passes the same object to all of its cases
    values = [(axis, tuple(id(spec.params[name]) for name in axis)) for axis in axes]
    goals: set[Any] = set(values)
    if "of" in marker.kwargs:
        goals.update(combinations(enumerate(_given(item, marker.kwargs["of"])), 2))
    elif marker.kwargs.get("pairs", len(axes) > 2):
        goals.update(combinations(values, 2))
    return goals


def _given(item: pytest.Function, function: Callable[..., Sequence[Hashable]]) -> Sequence[Hashable]:
    """The result of the function for the parameters that it names."""
    return function(**{name: item.callspec.params[name] for name in _names(function)})


@cache
def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _together(item: pytest.Function, name: str) -> tuple[str, ...]:
    """The names that one `parametrize` gives values to: one axis."""
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = tuple(n.strip() for n in names.split(",")) if isinstance(names, str) else tuple(names)
        if name in names:
            return names
    return (name,)  # a fixture's
