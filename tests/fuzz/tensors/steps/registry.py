"""Where steps are entered."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.tensors.draft import Draft

Step = Callable[[Draft], None]
STEPS: list[tuple[Step, float]] = []


def step(weight: float) -> Callable[[Step], Step]:
    """Enters a step, tried in proportion to its weight."""

    def enter(function: Step) -> Step:
        STEPS.append((function, weight))
        return function

    return enter
