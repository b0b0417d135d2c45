"""Kinds of lines, a file for each family. `drafted` draws a program."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.gradients.draft import Draft, Unfit
from tests.fuzz.gradients.steps.registry import STEPS

FAMILIES = ("elements", "reductions", "shapes", "indexing", "contractions", "windows", "layers", "control", "nested")
LONGEST = 8
TRIES = 25

for _family in FAMILIES:
    import_module(f"tests.fuzz.gradients.steps.{_family}")


def drafted(seed: int) -> Draft:
    """The program of a seed, with the values that torch has for it."""
    draft = Draft(seed)
    for _ in range(draft.chance.randint(1, LONGEST)):
        for _ in range(TRIES):
            if added(draft):
                break
    return draft


def added(draft: Draft) -> bool:
    """Draws a line; True if it fits. Otherwise its inputs are removed."""
    (step,) = draft.chance.choices([s for _, s in STEPS], [w for w, _ in STEPS])
    inputs, values = dict(draft.program.inputs), dict(draft.values)
    try:
        found = step(draft)
        texts, names = found if isinstance(found[0], tuple) else (found, 1)
        fits = draft.add(texts, names)  # type: ignore[arg-type]
    except Unfit:
        fits = False
    kept = {*inputs, *draft.program.lines[-1].uses} if fits else {*inputs}
    draft.program.inputs = {n: a for n, a in draft.program.inputs.items() if n in kept}
    draft.values = {n: v for n, v in draft.values.items() if n in kept or n[0] == "v"} if fits else values
    return fits
