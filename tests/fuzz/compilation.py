"""The autotuning, the CPU, its costs and the threads of drawn programs, by environment variables.

BURN_FUZZ_AUTOTUNE is "any", "fast" or "full". "any" draws a variant of every decision by the program's seed. "fast" and
"full" run burn's search: each variant is compiled and runs once, and drawn times choose among them. A search by real
times keeps the default for most small programs. BURN_FUZZ_TARGET is the CPU of compilations that name none. With
BURN_FUZZ_COSTS=1 its costs are drawn by the program's seed, which changes blocks, tiles and the ranges of threads.
BURN_FUZZ_THREADS is the number of threads.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import burn
from burn.codegen.cpu import backend
from burn.codegen.cpu.costs import FIELDS
from burn.codegen.cpu.target import Target, resolved
from burn.codegen.tuning import clock
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.modes import VARIABLE
from burn.dialect.program import Program
from burn.runtime.artefact import Artefact
from burn.runtime.device import Device

AUTOTUNE = "BURN_FUZZ_AUTOTUNE"
TARGET = "BURN_FUZZ_TARGET"
COSTS = "BURN_FUZZ_COSTS"
THREADS = "BURN_FUZZ_THREADS"
MODES = ("", "any", "fast", "full")


@contextmanager
def chosen(seed: int, autotune: str | None = None) -> Iterator[None]:
    """Compilations by the environment variables above. autotune: the mode instead of the environment's. Raises
    ValueError for an unknown mode."""
    mode = os.environ.get(AUTOTUNE, "") if autotune is None else autotune
    if mode not in MODES:
        raise ValueError(f"{AUTOTUNE} is {mode!r}, and none of {', '.join(MODES[1:])}")
    name, costs = os.environ.get(TARGET) or None, extreme(seed) if os.environ.get(COSTS) else {}
    if threads := os.environ.get(THREADS):
        burn.set_num_threads(int(threads))

    def of(target: str | Target | None) -> Target:
        found = resolved(target or name)
        return replace(found, costs=replace(found.costs, **costs))

    variables = {VARIABLE: f"any:{seed}" if mode == "any" else mode} if mode else {}
    with mock.patch.dict(os.environ, variables), mock.patch.object(backend, "resolved", of):
        if mode in ("fast", "full"):
            timed = mock.patch.object(clock, "seconds", _Clock(seed, clock.seconds))
            kept = mock.patch.object(Book, "of", lambda machine, kind: Book(None))  # or a seed would depend on others
            with timed, kept:
                yield
        else:
            yield


def extreme(seed: int) -> dict[str, int]:
    """Costs of a CPU at the bounds of valid values, or in the middle."""
    chance, found = random.Random(seed), {}
    for name, each in FIELDS.items():
        least, most, allowed = (each.metadata[key] for key in ("least", "most", "allowed"))
        between = [value for value in allowed if least <= value <= most] or [
            chance.randint(least, min(most, 16 * least + 16))
        ]
        found[name] = chance.choice([least, most, each.default, chance.choice(between)])
    return found


class _Clock:
    """Runs programs once, and draws their seconds by a seed."""

    def __init__(self, seed: int, seconds: Callable[[Program, Sequence[Artefact], Device], list[list[float]]]) -> None:
        self._random, self._seconds = random.Random(f"clock {seed}"), seconds

    def __call__(self, program: Program, artefacts: Sequence[Artefact], device: Device) -> list[list[float]]:
        with mock.patch.object(clock, "RUNS", 0), mock.patch.object(clock, "LONG", 0.0):
            rows = self._seconds(program, artefacts, device)
        factors = [1.0, *(self._random.uniform(0.2, 1.2) for _ in rows[1:])]
        return [[seconds and factor for seconds in row] for row, factor in zip(rows, factors, strict=True)]
