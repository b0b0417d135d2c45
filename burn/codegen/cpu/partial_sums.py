"""Splits float sums into partial sums, so that their error does not grow with the number of terms.

One accumulator after n terms is off by as much as n roundings of the total. In blocks of b terms, each with an
accumulator of its own, a term is rounded about b + n / b times (Higham, Accuracy and Stability of Numerical Algorithms,
section 4.2). Nested blocks continue that. `cuts` is the entry point: it decides while sizes are numbers, so that short
sums stay one loop.
"""

from __future__ import annotations

from burn.dialect.dims import LoopVar
from burn.kernels.body import Reduction, Stage

BLOCK = 256
"""Terms that one accumulator takes: few roundings, and enough that the loops around cost nothing next to them."""

Cut = tuple[int, ...]
"""Iterations of a block, then of a block of blocks; nothing for a loop in one piece."""


def is_float_sum(reduction: Reduction) -> bool:
    return reduction.kind == "sum" and reduction.dtype.startswith(("float", "bfloat"))


def cuts(stage: Stage, lane: LoopVar | None, lanes: int) -> tuple[Cut, ...]:
    """The cut of each of a stage's loops, the outermost first.

    A loop whose terms fit into a block together with those of the loops inside it is not cut."""
    result: list[Cut] = []
    terms = 1  # terms per iteration of the current loop
    for loop in reversed(stage.loops if any(map(is_float_sum, stage.reductions)) else ()):
        extent = loop.extent
        steps = -(-extent // (lanes if loop == lane else 1)) if isinstance(extent, int) else None
        if steps is not None and steps * terms <= BLOCK:
            result.append(())
            terms *= max(steps, 1)
            continue
        block = max(1, BLOCK // terms)
        result.append((block, block * BLOCK) if steps is None or steps > block * BLOCK else (block,))
        terms = 1
    return tuple(reversed(result)) or ((),) * len(stage.loops)
