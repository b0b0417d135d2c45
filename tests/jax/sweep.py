"""The sweep over functions of jax.lax, jax.numpy, jax.nn, jax.scipy, jax.random and optax: name x element type x shape.

    python -m tests.jax.sweep --count 5000 -j 2          # 5,000 cases, forward and gradient
    python -m tests.jax.sweep --only lax.conv --count 200
    python -m tests.jax.sweep --seed 1234 --count 1      # one case again

A case is a seed: it chooses a function, the operands, and if the gradient is compared. A refusal counts as a failure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from typing import TYPE_CHECKING

from tests.fuzz.runner import Outcome, first_seed, outcomes

if TYPE_CHECKING:
    from tests.jax.case import Case


def drawn(seed: int) -> tuple[Case, bool]:
    """A case, and if its gradient is compared. BURN_JAX_ONLY restricts the functions to names that begin with it."""
    from tests.jax.draw import Draw
    from tests.jax.families import load

    only = os.environ.get("BURN_JAX_ONLY", "")
    names = [name for name in load() if name.startswith(only)]
    return load()[names[seed % len(names)]](Draw(seed)), (seed // len(names)) % 3 == 2


def run(seed: int) -> Outcome:
    """One case."""
    from tests.jax.case import outcome

    case, gradient = drawn(seed)
    result = outcome(case, gradient)
    if gradient and result.kind == "skipped":
        result = outcome(case)
        gradient = False
    kind = {"right": "ok", "refused": "a refusal"}.get(result.kind, result.kind)
    return Outcome(kind, f"{'gradient of ' * gradient}{case!r}: {result.detail}")


TOGETHER = 12


def run_together(seed: int) -> Outcome:
    """The cases TOGETHER * seed to TOGETHER * (seed + 1) - 1, forward, in one program."""
    from tests.jax.case import together

    seeds = range(TOGETHER * seed, TOGETHER * (seed + 1))
    cases = [drawn(each)[0] for each in seeds]
    results = together(cases)
    failed = [
        f"{each} {result.kind}: {case!r}: {result.detail}"
        for each, case, result in zip(seeds, cases, results, strict=True)
        if result.kind not in ("right", "skipped")
    ]
    return Outcome("failures" if failed else "ok", "\n".join(failed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", help="the first one; random by default")
    parser.add_argument("--only", default="", help="functions whose names begin with this")
    parser.add_argument("--log", type=Path, help="failures go there, too")
    parser.add_argument(
        "--together", action="store_true", help=f"{TOGETHER} cases in one program, without gradients: faster"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1)
    options = parser.parse_args()
    os.environ["BURN_JAX_ONLY"] = options.only
    first = first_seed(options.seed)
    counts: Counter[str] = Counter()
    lines = []
    seeds = range(first, first + options.count)
    if options.together:
        seeds = range(first // TOGETHER, (first + options.count) // TOGETHER)
    for seed, result in outcomes(
        run_together if options.together else run, seeds, options.jobs, 240.0, ("burn", "jax")
    ):
        failed = len(result.detail.splitlines()) if result.failed else 0
        counts[result.kind] += max(failed, 1)
        counts["ok"] += TOGETHER - max(failed, 1) if options.together else 0
        if result.failed:
            line = f"{seed} {result.kind}: {result.detail}"
            lines.append(line)
            print(line, flush=True)
            if options.log:
                options.log.write_text("\n".join(lines) + "\n")
    compared = sum(counts.values()) - counts["skipped"]
    print(dict(counts), f"{counts['ok'] / max(compared, 1):.2%} of {compared} right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
