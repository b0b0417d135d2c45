"""The search for a program's fastest variants: `search` is the entry point.

The program runs with every decision in its first variant, then in its second, and so on, so that each is timed next to
the others. The fastest are stored on disk (`book.py`) and not timed again. A CPU's timings are disturbed by other work,
so they are interleaved: the default program, a variant, and so on repeatedly. Finally the chosen variants are timed in
combination, and those that are still faster are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from burn.codegen.backend import Built
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Variant
from burn.dialect.program import Program

TRIED = {"fast": 4, "full": 16}
"""The number of variants timed for each decision, by mode, including the default."""

Variants = Mapping[str, Sequence[Variant]]
"""By key, the default first."""


@dataclass(frozen=True)
class Trial:
    """A program after all passes, as code in some variants. behind: by launch number, the keys of the decisions that
    its time counts for."""

    program: Program
    built: Built
    behind: Mapping[int, Collection[str]]


Measure = Callable[[Sequence[Trial]], Sequence[Sequence[float]]]
"""Seconds of each launch, by number, for each of several trials that run interleaved."""


class Subject(Protocol):
    """The object of the search. worth: the largest fraction of the default's time for which a variant is adopted.
    interleaved: trials run interleaved."""

    @property
    def worth(self) -> float: ...

    @property
    def interleaved(self) -> bool: ...

    def variants(self) -> dict[str, list[Variant]]:
        """All variants by key, the default first."""
        ...

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        """Work shared by all following trials; returns the variants, by number, that cannot be built."""
        ...

    def build(self, picked: Mapping[str, Variant]) -> Trial: ...


def search(subject: Subject, mode: str, book: Book, measure: Measure) -> dict[str, Variant]:
    """The fastest variants by key. Raises CompileError."""
    variants = {key: found for key, found in subject.variants().items() if len(found) > 1}
    tried = TRIED[mode]
    picked = {key: variant for key, found in variants.items() if (variant := book.get(key, found, tried)) is not None}
    unknown = {key: found[:tried] for key, found in variants.items() if key not in picked}
    if unknown:
        unfit = subject.prepare([_trial(picked, unknown, number) for number in _rounds(unknown)])
        times = _timed(subject, picked, unknown, unfit, measure)
        best = {key: _fastest(times.get(key, {}), subject.worth) for key in unknown}
        if subject.interleaved and any(best.values()):
            best = _confirmed(subject, picked, unknown, best, measure)
        report("")
        for key, number in best.items():
            picked[key] = unknown[key][number]
            book.put(key, picked[key], times.get(key, {}), len(unknown[key]))
    return picked


def _fastest(times: Mapping[int, float], worth: float) -> int:
    """The default, unless another variant is clearly faster. Decisions without a timing keep the default."""
    if not times:
        return 0
    best = min(times, key=lambda number: times[number])
    return best if times[best] <= worth * times[0] else 0


def _trial(picked: Mapping[str, Variant], variants: Variants, number: int) -> dict[str, Variant]:
    """Every decision in its variant of that number; in the default if there is none."""
    return {**picked, **{key: found[number if number < len(found) else 0] for key, found in variants.items()}}


def _rounds(variants: Variants) -> range:
    return range(max(map(len, variants.values())))


def _timed(
    subject: Subject,
    picked: Mapping[str, Variant],
    variants: Variants,
    unfit: Collection[tuple[str, int]],
    measure: Measure,
) -> dict[str, dict[int, float]]:
    """Seconds of each decision by variant number. Variants that do not run have none."""
    times: dict[str, dict[int, float]] = {}
    default: Trial | None = None
    for number in _rounds(variants):
        fit = {key: found for key, found in variants.items() if (key, number) not in unfit and number < len(found)}
        report(f"building {number + 1} of {len(_rounds(variants))}")
        trial = subject.build({**_trial(picked, variants, 0), **_trial({}, fit, number)})
        report(f"timing {number + 1} of {len(_rounds(variants))}")
        if not subject.interleaved:
            (found,) = measure([trial])
            for key, seconds in _by_key(found, trial, fit).items():
                times.setdefault(key, {})[number] = seconds
            continue
        if default is None:
            default = trial
            continue
        before, now = measure([default, trial])
        meanwhile = _by_key(before, default, fit)
        for key, seconds in _by_key(now, trial, fit).items():
            if key in meanwhile:  # as if the default had taken equally long each time
                taken = times.setdefault(key, {0: meanwhile[key]})
                taken[number] = seconds * taken[0] / meanwhile[key]
    return {key: taken for key, taken in times.items() if 0 in taken}


def _confirmed(
    subject: Subject, picked: Mapping[str, Variant], variants: Variants, best: Mapping[str, int], measure: Measure
) -> dict[str, int]:
    """The fastest variants that are also faster in combination with the others; none if the whole program is no faster."""
    report("timing all of the fastest")
    default = subject.build(_trial(picked, variants, 0))
    found = subject.build({**picked, **{key: variants[key][number] for key, number in best.items()}})
    before, now = measure([default, found])
    if sum(now) >= sum(before):
        return dict.fromkeys(best, 0)
    old, new = _by_key(before, default, variants), _by_key(now, found, variants)
    return {key: number if new.get(key, 0.0) < old.get(key, 0.0) else 0 for key, number in best.items()}


def _by_key(seconds: Iterable[float], trial: Trial, keys: Collection[str]) -> dict[str, float]:
    """The time of the launches of each of these keys; empty for launches that did not run."""
    found: dict[str, float] = {}
    for launch, each in enumerate(seconds):
        for key in trial.behind.get(launch, ()):
            if key in keys and each:
                found[key] = found.get(key, 0.0) + each
    return found


def report(text: str) -> None:
    """Writes a line to the terminal that the next one overwrites."""
    if sys.stderr.isatty():
        print(f"\r\033[Kautotuning: {text}" if text else "\r\033[K", end="", file=sys.stderr, flush=True)
