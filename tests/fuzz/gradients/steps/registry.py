"""The kinds of lines that programs are drawn from. Enter at `STEPS`."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.gradients.draft import Draft, Texts

Step = Callable[[Draft], "Texts | tuple[Texts, int]"]
"""Draws a line: its texts, and how many values it has unless that is one. Raises Unfit."""

STEPS: list[tuple[float, Step]] = []
"""(weight, step)."""


def step(weight: float) -> Callable[[Step], Step]:
    def enter(function: Step) -> Step:
        STEPS.append((weight, function))
        return function

    return enter


def both(text: str) -> Texts:
    """One text for both libraries."""
    return text, text
