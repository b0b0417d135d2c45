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

from tests.fuzz.runner import Outcome, first_seed, outcomes

KINDS = ("right", "skipped", "wrong", "refused", "error")


def run(seed: int) -> Outcome:
    """One case. BURN_JAX_ONLY restricts the functions to names that begin with it."""
    from tests.jax.case import outcome
    from tests.jax.draw import Draw
    from tests.jax.families import load

    only = os.environ.get("BURN_JAX_ONLY", "")
    names = [name for name in load() if name.startswith(only)]
    draw = Draw(seed)
    name = names[seed % len(names)]
    gradient = (seed // len(names)) % 3 == 2
    case = load()[name](draw)
    result = outcome(case, gradient)
    if gradient and result.kind == "skipped":
        result = outcome(case)
        gradient = False
    kind = {"right": "ok", "refused": "a refusal"}.get(result.kind, result.kind)
    return Outcome(kind, f"{'gradient of ' * gradient}{case!r}: {result.detail}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", help="the first one; random by default")
    parser.add_argument("--only", default="", help="functions whose names begin with this")
    parser.add_argument("--log", type=Path, help="failures go there, too")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    options = parser.parse_args()
    os.environ["BURN_JAX_ONLY"] = options.only
    first = first_seed(options.seed)
    counts: Counter[str] = Counter()
    lines = []
    for seed, result in outcomes(run, range(first, first + options.count), options.jobs, 240.0, ("burn", "jax")):
        counts[result.kind] += 1
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
