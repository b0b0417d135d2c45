"""The sweep over functions of jax.lax, jax.numpy, jax.nn, jax.scipy, jax.random and optax: name x element type x shape.

    python -m tests.jax.sweep --count 8000 --together -j 2   # forward; about 5,000 of them JAX evaluates
    python -m tests.jax.sweep --count 1000 --order 1 --together  # gradients
    python -m tests.jax.sweep --count 1000 --order 2         # second derivatives
    python -m tests.jax.sweep --only all. --count 8000    # the catalogue: every public function
    python -m tests.jax.sweep --only all. --dtypes complex64,complex128 --together --count 1000
    python -m tests.jax.sweep --seed 1234 --count 1          # one case again

A case is a seed: it chooses a function, the element type (all that JAX has, with and without x64), and the operands. Cases that
JAX itself refuses are "skipped". Every other counts: a refusal is a failure, like a wrong number (tests/jax/accuracy.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from typing import TYPE_CHECKING

from tests.fuzz.runner import Outcome, first_seed, outcomes

if TYPE_CHECKING:
    from tests.jax.case import Case


def names() -> list[str]:
    """The functions of the catalogue as all.jnp.add, and the families; those that begin with BURN_JAX_ONLY."""
    from tests.jax.catalogue import names as catalogued
    from tests.jax.families import load

    only = os.environ.get("BURN_JAX_ONLY", "")
    return [name for name in (*(f"all.{own}" for own in catalogued()), *load()) if name.startswith(only)]


def drawn(seed: int, order: int = 0) -> Case | None:
    """A case of function number `seed` (modulo their number). order: of the derivative; None if there is none."""
    from tests.jax.case import derivative
    from tests.jax.catalogue import builder
    from tests.jax.catalogue.sample import COMPLEX, REALS
    from tests.jax.draw import Draw
    from tests.jax.families import load

    found = names()
    name = found[seed % len(found)]
    dtypes = tuple(filter(None, os.environ.get("BURN_JAX_DTYPES", "").split(",")))
    draw = Draw(seed, dtypes or ((*REALS, *COMPLEX) if order else ()), bool(order))
    case = builder(name.removeprefix("all."))(draw) if name.startswith("all.") else load()[name](draw)
    return derivative(case, order) if order else case


def order_of_runs() -> int:
    return int(os.environ.get("BURN_JAX_ORDER", "0"))


def run(seed: int) -> Outcome:
    """One case. BURN_JAX_ORDER=1 or 2: of its derivative."""
    return one(seed, order_of_runs())


def one(seed: int, order: int) -> Outcome:
    from tests.jax.case import outcome

    case = drawn(seed, order)
    if case is None:
        return Outcome("skipped")
    result = outcome(case)
    return Outcome(KINDS.get(result.kind, result.kind), f"{case!r}: {result.detail}")


KINDS = {"right": "ok", "refused": "a refusal", "fault": "skipped"}
"""Kinds of results as outcomes."""
TOGETHER = 12


def run_together(seed: int) -> Outcome:
    """The cases TOGETHER * seed to TOGETHER * (seed + 1) - 1 in one program; the detail has a line for each."""
    from tests.jax.case import together

    results, order = {}, order_of_runs()
    several = range(TOGETHER * seed, TOGETHER * (seed + 1))
    seeds = {each: c for each in several if (c := drawn(each, order)) is not None}
    for x64 in (False, True):
        those = [each for each, case in seeds.items() if case.x64 is x64]
        if those:
            results.update(zip(those, together([seeds[each] for each in those]), strict=True))
    labels = {**KINDS, "fault": "fault"}
    lines = [f"{each} {labels.get(r.kind, r.kind)}: {seeds[each]!r}: {r.detail}" for each, r in sorted(results.items())]
    return Outcome("several", "\n".join(" ".join(line.split()) for line in lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", help="the first one; random by default")
    parser.add_argument("--only", default="", help="functions whose names begin with this")
    parser.add_argument("--dtypes", default="", help="element types to draw, by commas: complex64,complex128")
    parser.add_argument("--order", type=int, default=0, choices=(0, 1, 2), help="of the derivative")
    parser.add_argument("--log", type=Path, help="a file for a line of each case")
    parser.add_argument(
        "--together", action="store_true", help=f"{TOGETHER} cases in one program: faster, not for --order 2"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="ends after this time")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    options = parser.parse_args()
    os.environ["BURN_JAX_ONLY"], os.environ["BURN_JAX_ORDER"] = options.only, str(options.order)
    os.environ["BURN_JAX_DTYPES"] = options.dtypes
    if options.together and options.order == 2:
        parser.error("second derivatives are not run together")
    first, end = first_seed(options.seed), time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    log = options.log.open("w") if options.log else None
    seeds = range(first, first + options.count)
    if options.together:
        seeds = range(first // TOGETHER, -(-(first + options.count) // TOGETHER))
    for seed, result in outcomes(
        run_together if options.together else run, seeds, options.jobs, 240.0, ("burn", "jax")
    ):
        lines = [f"{seed} {result.kind}: {' '.join(result.detail.split())}"]
        if result.kind == "several":
            lines = result.detail.splitlines()
        elif options.together:
            counts["died"] += TOGETHER - 1
        for line in lines:
            kind = line.partition(" ")[2].partition(":")[0]
            counts[kind] += 1
            if kind not in ("ok", "skipped"):
                print(line, flush=True)
            if log:
                print(line, file=log, flush=True)
        if time.monotonic() > end:
            break
    defined = sum(counts.values()) - counts["skipped"]  # a fault of JAX is not right either
    print(dict(counts))
    print(f"{counts['ok'] / max(defined, 1):.2%} right of {defined} cases that JAX evaluates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
