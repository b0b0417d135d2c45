"""The kinds of steps, by family, and `drafted`, which makes a program of them.

A step is a function of a draft that adds lines to it, registered with how often it is tried. It raises `Unfit` where the
values that there are do not do.
"""

from __future__ import annotations

from tests.fuzz.tensors.draft import Draft, Unfit
from tests.fuzz.tensors.steps import elements, indexing, orders, reductions, shapes, table  # noqa: F401  # they register
from tests.fuzz.tensors.steps.registry import STEPS

LENGTHS = (3, 5, 8, 14, 24)


def drafted(seed: int, named: bool) -> Draft:
    """The program of a seed."""
    draft = Draft(seed, named)
    for _ in range(draft.random.randint(2, 4)):
        draft.input(draft.shape(), draft.dtype())
    wanted = draft.random.choice(LENGTHS)
    functions, weights = zip(*STEPS, strict=True)
    for _ in range(wanted * 5):
        try:
            draft.random.choices(functions, weights)[0](draft)
        except Unfit:
            continue
        if len(draft.program.lines) >= wanted:
            break
    return draft
