"""Stretches of nodes that occur again and again, where the source model does not say what its parts are. Enter at `search`.

The list of nodes is compared as a text is: each node is a letter, and the part to take out is the repeated stretch that saves
most lines. Its occurrences must be wired alike (wiring.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.exporters.python.graph import Graph, Node
from burn.exporters.python.wiring import Occurrence, all_values, letter, numbered_scope, occurrence, options, results

SHORTEST, LONGEST = 5, 600  # nodes of a stretch
MOST_RESULTS, MOST_OPTIONS = 4, 8
CLOSELY = 40  # stretches that are looked at closely
WORTH = 8  # lines that a block must save


def search(graph: Graph) -> list[Occurrence] | None:
    """The occurrences of the best block; None where no block is worth it."""
    return _Search(graph).best() if len(graph.nodes) >= 2 * SHORTEST else None


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.uses = graph.uses()
        letters: dict[Any, int] = {}
        self.letters = np.array([letters.setdefault(letter(n), len(letters) + 1) for n in self.nodes], np.uint64)
        self.scopes = [numbered_scope(n) for n in self.nodes]
        self.values = [all_values(n) for n in self.nodes]
        self.crossing = self._crossing()

    def _crossing(self) -> list[int]:
        """The number of values that are live at each position."""
        last: dict[Node, int] = {}
        for i, values in enumerate(self.values):
            last.update((v.node, i) for v in values if v.node.op not in ("constant", "input"))
        last.update((v.node, len(self.nodes)) for v in self.graph.outputs)
        change = [0] * (len(self.nodes) + 2)
        for i, node in enumerate(self.nodes):
            if node in last:
                change[i + 1] += 1
                change[last[node] + 1] -= 1
        return np.cumsum(change).tolist()

    def best(self) -> list[Occurrence] | None:
        best, found = 0.0, None
        for length, starts in sorted(self._stretches(), key=self._promise)[:CLOSELY]:
            if (len(starts) - 1) * length * 1.5 <= best:
                continue
            for occurrences in self._alike(length, starts):
                score = self._score(occurrences)
                if score > best:
                    best, found = score, occurrences
        return found if best >= WORTH else None

    def _promise(self, stretch: tuple[int, list[int]]) -> float:
        """The less the better: lines that a stretch would save, less the values that cross its ends."""
        length, starts = stretch
        crossing = self.crossing[starts[0]] + self.crossing[starts[0] + length]
        whole = self.scopes[starts[0]] != self.scopes[starts[0] - 1] if starts[0] else True
        return -(len(starts) - 1) * length * (1.2 if whole else 1.0) + len(starts) * crossing

    def _stretches(self) -> list[tuple[int, list[int]]]:
        """(length, starts) of stretches of the same letters that do not overlap and are no repetition themselves."""
        count = len(self.nodes)
        base = np.uint64(0x9E3779B97F4A7C15)
        powers = np.ones(count + 1, np.uint64)
        sums = np.zeros(count + 1, np.uint64)
        with np.errstate(over="ignore"):
            for i in range(count):
                powers[i + 1] = powers[i] * base
                sums[i + 1] = sums[i] * base + self.letters[i]
            found = []
            for length in range(SHORTEST, min(count // 2, LONGEST) + 1):
                hashes = sums[length:] - sums[:-length] * powers[length]
                _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
                for group in np.flatnonzero(counts > 1):
                    starts = _apart(np.flatnonzero(inverse == group).tolist(), length)
                    if len(starts) > 1 and not self._is_periodic(starts[0], length):
                        found.append((length, starts))
                if len(found) > 20000:
                    break
        return found

    def _is_periodic(self, start: int, length: int) -> bool:
        stretch = self.letters[start : start + length]
        periods = range(SHORTEST, length // 2 + 1)  # also of a repetition that ends in the middle
        return any(bool((stretch[p:] == stretch[:-p]).all()) for p in periods)

    def _alike(self, length: int, starts: list[int]) -> list[list[Occurrence]]:
        """Groups occurrences by their wiring; groups that differ in too many numbers are split by those numbers."""
        groups: dict[Any, list[Occurrence]] = {}
        for start in starts:
            found = occurrence(self.nodes[start : start + length], self.uses)
            if found is not None:
                groups.setdefault(found.key, []).append(found)
        result = []
        for group in groups.values():
            if len(options(group)) > MOST_OPTIONS:
                same: dict[Any, list[Occurrence]] = {}
                for each in group:
                    same.setdefault(repr(each.numbers), []).append(each)
                result += same.values()
            else:
                result.append(group)
        return [g for g in result if len(g) > 1]

    def _score(self, occurrences: list[Occurrence]) -> float:
        length, count = len(occurrences[0].nodes), len(occurrences)
        given = results(occurrences, self.uses)
        if not 1 <= len(given) <= MOST_RESULTS:
            return 0.0
        whole = sum(self._is_whole(o) for o in occurrences) / count
        saved = (count - 1) * length - count * (len(occurrences[0].slots) + len(given) - 2)
        return (saved - len(options(occurrences))) * (1 + 0.5 * whole)

    def _is_whole(self, each: Occurrence) -> bool:
        """True if these are the nodes of one numbered part of the source model, all of them as far as one can see."""
        start = self.nodes.index(each.nodes[0])
        end = start + len(each.nodes)
        scopes = {self.scopes[i] for i in range(start, end) if self.scopes[i]}
        beside = {self.scopes[i] for i in (start - 1, end) if 0 <= i < len(self.scopes)}
        return len(scopes) == 1 and scopes.isdisjoint(beside)


def _apart(starts: list[int], length: int) -> list[int]:
    kept: list[int] = []
    for start in starts:
        if not kept or start >= kept[-1] + length:
            kept.append(start)
    return kept
