"""The search for a program's fastest variants: `search` is the entry point.

The program runs with every decision in its first variant, then in its second, and so on, so that each is timed next to
the others. The fastest are stored on disk (`book.py`) and not timed again. A CPU's timings are disturbed by other work,
so they are interleaved: the default program, one or more variants, and so on repeatedly. Decisions that matter little for
the program's time keep the default after their first variant. Finally the chosen variants are timed in combination, and
those that are still faster are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from burn.codegen.backend import Built
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Variant, digest
from burn.dialect.program import Program

TRIED = {"fast": 4, "full": 16}
"""The number of variants timed for each decision, by mode, including the default."""

REST = 0.05
"""The fraction of a program's time whose decisions stay at the default: those with the shortest launches. Each variant is a
compilation and some runs of the whole program."""

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
    interleaved: the number of trials that run interleaved with the default's; 0 if each trial runs alone."""

    @property
    def worth(self) -> float: ...

    @property
    def interleaved(self) -> int: ...

    def text(self) -> str:
        """The program's text: how often decisions occur in it determines which of them matter."""
        ...

    def variants(self) -> dict[str, list[Variant]]:
        """All variants by key, the default first."""
        ...

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        """Work shared by all following trials; returns the variants, by number, that cannot be built."""
        ...

    def build(self, trials: Sequence[Mapping[str, Variant]]) -> list[Trial]: ...


def search(subject: Subject, mode: str, book: Book, measure: Measure) -> dict[str, Variant]:
    """The fastest variants by key. Raises CompileError."""
    variants = {key: found for key, found in subject.variants().items() if len(found) > 1}
    tried, program = TRIED[mode], digest(subject.text(), *sorted(variants))
    known_rest = book.rest(program, tried)
    picked = {key: variants[key][0] for key in known_rest if key in variants}
    picked |= {key: variant for key, found in variants.items() if (variant := book.get(key, found, tried)) is not None}
    unknown = {key: found[:tried] for key, found in variants.items() if key not in picked}
    if unknown:
        unfit = subject.prepare([_trial(picked, unknown, number) for number in _rounds(unknown)])
        timed = _beside_default if subject.interleaved else _alone
        times, rest = timed(subject, picked, unknown, unfit, measure)
        best = {key: _fastest(times.get(key, {}), subject.worth) for key in unknown}
        if subject.interleaved and any(best.values()):
            best = _confirmed(subject, picked, unknown, best, measure)
        report("")
        for key, number in best.items():
            picked[key] = unknown[key][number]
            if key not in rest:
                book.put(key, picked[key], times.get(key, {}), len(unknown[key]))
        if rest:
            book.put_rest(program, rest | known_rest, tried)
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


Times = dict[str, dict[int, float]]
"""Seconds of each decision by variant number. Variants that do not run have none."""


def _alone(
    subject: Subject,
    picked: Mapping[str, Variant],
    variants: Variants,
    unfit: Collection[tuple[str, int]],
    measure: Measure,
) -> tuple[Times, frozenset[str]]:
    """The times of all variants, one trial after the other; no decision is left out."""
    times: Times = {}
    for number in _rounds(variants):
        ((fit, trial),) = _built(subject, picked, variants, unfit, [number])
        report(f"timing {number + 1} of {len(_rounds(variants))}")
        (found,) = measure([trial])
        for key, seconds in _by_key(found, trial, fit).items():
            times.setdefault(key, {})[number] = seconds
    return {key: taken for key, taken in times.items() if 0 in taken}, frozenset()


def _beside_default(
    subject: Subject,
    picked: Mapping[str, Variant],
    variants: Variants,
    unfit: Collection[tuple[str, int]],
    measure: Measure,
) -> tuple[Times, frozenset[str]]:
    """The times of variants in trials that run interleaved with the default's, and the decisions that are left at the
    default because they matter little (`REST`)."""
    times: Times = {}
    rest: frozenset[str] = frozenset()
    report("building the default")
    (default,) = subject.build([_trial(picked, variants, 0)])
    numbers = list(_rounds(variants))[1:]
    while numbers:
        count = subject.interleaved if times else 1  # the first shows which decisions matter
        together, numbers = numbers[:count], numbers[count:]
        trials = _built(subject, picked, variants, unfit, together)
        report(f"timing {together[-1] + 1} of {len(_rounds(variants))}")
        before, *now = measure([default, *(trial for _, trial in trials)])
        meanwhile = _by_key(before, default, variants)
        for number, (fit, trial), seconds in zip(together, trials, now, strict=True):
            for key, taken in _by_key(seconds, trial, fit).items():
                if key in meanwhile:  # as if the default had taken equally long each time
                    known = times.setdefault(key, {0: meanwhile[key]})
                    known[number] = taken * known[0] / meanwhile[key]
        if not rest:
            rest = _rest(meanwhile, sum(before))
            picked = {**picked, **{key: variants[key][0] for key in rest}}
            variants = {key: found for key, found in variants.items() if key not in rest}
            numbers = [number for number in numbers if number < max(map(len, variants.values()), default=0)]
    return {key: taken for key, taken in times.items() if key not in rest}, rest


def _rest(seconds: Mapping[str, float], whole: float) -> frozenset[str]:
    """The decisions with the shortest times, which together take less than `REST` of the whole."""
    rest, total = set[str](), 0.0
    for key in sorted(seconds, key=lambda key: (seconds[key], key)):
        total += seconds[key]
        if total >= REST * whole:
            break
        rest.add(key)
    return frozenset(rest)


def _built(
    subject: Subject,
    picked: Mapping[str, Variant],
    variants: Variants,
    unfit: Collection[tuple[str, int]],
    numbers: Sequence[int],
) -> list[tuple[Variants, Trial]]:
    """For each number the trial of the variants of that number, and the decisions that have one."""
    report(f"building {numbers[-1] + 1} of {len(_rounds(variants))}")
    fits = [
        {key: found for key, found in variants.items() if (key, number) not in unfit and number < len(found)}
        for number in numbers
    ]
    default = _trial(picked, variants, 0)
    trials = subject.build([{**default, **_trial({}, fit, number)} for fit, number in zip(fits, numbers, strict=True)])
    return list(zip(fits, trials, strict=True))


def _confirmed(
    subject: Subject, picked: Mapping[str, Variant], variants: Variants, best: Mapping[str, int], measure: Measure
) -> dict[str, int]:
    """The fastest variants that are also faster in combination with the others; none if the whole program is no faster."""
    report("timing all of the fastest")
    (default,) = subject.build([_trial(picked, variants, 0)])
    (found,) = subject.build([{**picked, **{key: variants[key][number] for key, number in best.items()}}])
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
