"""A line search that ends where the strong Wolfe conditions hold (J. Nocedal and S. Wright, Numerical Optimization, algorithms
3.5 and 3.6), with cubic interpolation inside of a bracket. It reckons with numbers; the caller evaluates the function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENOUGH, FLAT = 1e-4, 0.9
"""The share of the first slope that the function must fall by, and that its slope may still have."""
MOST = 25
"""Evaluations."""


@dataclass(frozen=True)
class Trial:
    """A position on the line, with the function's value, its slope along the line, and its gradient."""

    at: float
    value: float
    slope: float
    gradient: Any


Evaluate = Callable[[float], Trial]


def strong_wolfe(evaluate: Evaluate, start: Trial, first: float, length: float, least: float) -> tuple[Trial, int]:
    """Returns the position found and the number of evaluations.

    start: the beginning of the line; first: the first position to try; length: the largest element of the direction.
    least: brackets whose elements differ by less are not divided."""
    search = _Search(evaluate, start)
    bracket = search.bracket(first)
    return search.zoom(bracket, length, least), search.evaluations


class _Search:
    def __init__(self, evaluate: Evaluate, start: Trial) -> None:
        self._evaluate, self.start = evaluate, start
        self.evaluations = self.rounds = 0

    def at(self, position: float) -> Trial:
        self.evaluations += 1
        return self._evaluate(position)

    def is_high(self, trial: Trial) -> bool:
        """True if the function has not decreased enough."""
        return trial.value > self.start.value + ENOUGH * trial.at * self.start.slope

    def is_flat(self, trial: Trial) -> bool:
        return abs(trial.slope) <= -FLAT * self.start.slope

    def bracket(self, position: float) -> tuple[Trial, Trial | None]:
        """A bracket of a suitable position, or the position itself."""
        before, now = self.start, self.at(position)
        while self.rounds < MOST:
            if self.is_high(now) or (self.rounds > 1 and now.value >= before.value):
                return before, now
            if self.is_flat(now):
                return now, None
            if now.slope >= 0:
                return before, now
            position = cubic(before, now, (now.at + 0.01 * (now.at - before.at), now.at * 10.0))
            before, now = now, self.at(position)
            self.rounds += 1
        return self.start, now

    def zoom(self, bracket: tuple[Trial, Trial | None], length: float, least: float) -> Trial:
        """Divides a bracket until it finds a suitable position."""
        first, second = bracket
        if second is None:
            return first
        ends = [first, second]
        low = int(first.value > second.value)
        stuck = False
        while self.rounds < MOST and abs(ends[1].at - ends[0].at) * length >= least:
            position, stuck = _inside(ends, stuck)
            now = self.at(position)
            self.rounds += 1
            if self.is_high(now) or now.value >= ends[low].value:
                ends[1 - low] = now
                low = int(ends[0].value > ends[1].value)
                continue
            done = self.is_flat(now)
            if not done and now.slope * (ends[1 - low].at - ends[low].at) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = now
            if done:
                break
        return ends[low]


def _inside(ends: list[Trial], stuck: bool) -> tuple[float, bool]:
    """Where to look next, and whether that is near an end: not twice in a row, for then the bracket hardly becomes smaller."""
    position = cubic(ends[0], ends[1])
    left, right = sorted(end.at for end in ends)
    margin = 0.1 * (right - left)
    if min(right - position, position - left) >= margin:
        return position, False
    if not stuck and left < position < right:
        return position, True
    return (right - margin if abs(position - right) < abs(position - left) else left + margin), False


def cubic(a: Trial, b: Trial, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two values and slopes is least, kept within bounds; their middle where it has no minimum."""
    left, right = (a, b) if a.at <= b.at else (b, a)
    low, high = bounds or (left.at, right.at)
    middle = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at)
    square = middle * middle - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    root = math.sqrt(square)
    span = right.slope - left.slope + 2 * root
    if not span:  # a straight line
        return (low + high) / 2
    share = (right.slope + root - middle) / span
    return min(max(right.at - (right.at - left.at) * share, low), high)
