"""Decisions about ranks that a node alone does not settle, and the search for those with which a model can be imported.

A program's ranks are fixed; ONNX lets a run decide them (an If whose branches differ in rank, a Squeeze without axes). The
importer takes the option that the model declares, or the more likely one, and the program checks at every call that the run
agrees. Where a later node cannot be built on it, or an output has another rank than the model declares, the import starts again
with another. Enter at `Choices.pick` and `search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

MOST_TRIES = 24
"""Imports of one model, or builds of one branch, that a search may take."""

Result = TypeVar("Result")
Progress = tuple[int, int]
"""How far a failed try came: nodes before the first problem, and minus the number of problems. More is better."""


@dataclass
class Choices:
    """fixed: options that a search has set, by site. made: the sites of the present try in order, with the number of options."""

    fixed: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)

    def pick(self, site: str, options: int) -> int:
        """The option to take at a site, which is named by the first output of its node; 0 is the most likely one."""
        self.made[site] = options
        return self.fixed.get(site, 0) % options


def search(choices: Choices, build: Callable[[], Result], progress: Callable[[Result], Progress | None]) -> Result:
    """Searches for choices with which `build` succeeds (`progress` is None), and returns its result, or the best one found.

    It changes one choice at a time, from the last to the first, and keeps a change that brings the build further."""

    def attempt() -> tuple[Result, Progress | None, dict[str, int]]:
        before, choices.made = choices.made, {}
        result = build()
        own, choices.made = choices.made, {**before, **choices.made}
        return result, progress(result), own

    result, reached, made = attempt()
    tries, tried = 1, set()
    while reached is not None:
        options = ((s, o) for s in reversed(made) for o in range(made[s]) if o != choices.fixed.get(s, 0))
        option = next(((s, o) for s, o in options if (s, o) not in tried), None)
        if option is None or tries == MOST_TRIES:
            break
        tries += 1
        tried.add(option)
        before = dict(choices.fixed)
        choices.fixed[option[0]] = option[1]
        other, further, others = attempt()
        if further is None or further > reached:
            result, reached, made, tried = other, further, others, {option}
        else:
            choices.fixed.clear()
            choices.fixed.update(before)
    return result
