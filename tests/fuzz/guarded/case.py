"""One drawn program: compiled for this CPU and for a generic one, and run with guard pages.

An access outside of a buffer ends the process, which the runner reports as a failure of the seed. The results for both CPUs must
agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import burn
from burn.errors import TypeMismatch
from tests.fuzz.guarded.draw import KINDS, Draw, Drawn
from tests.fuzz.runner import Outcome

BOUNDS = {"float64": 1e-12, "float32": 3e-5, "float16": 2e-2, "bfloat16": 1e-1}
"""Differences for each element type, relative to the largest element."""


def case(seed: int) -> Outcome:
    draw = Draw(np.random.default_rng(seed))
    kind = list(KINDS)[seed % len(KINDS)]
    burn.set_num_threads(int(draw.integer(1, 3)))
    drawn = KINDS[kind](draw)
    about = f"{kind}: {drawn.text}"
    try:
        results = [_run(drawn, target) for target in (None, "generic")]
    except TypeMismatch as error:  # a window that does not fit
        return Outcome("refused", f"{about}\n{error}")
    for number, (got, want) in enumerate(zip(*results, strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            return Outcome("shape", f"{about}\nresult {number}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}")
        a, b = got.astype("float64"), want.astype("float64")
        bound = BOUNDS.get(str(got.dtype), 0) * max(1.0, np.abs(b).max(initial=0))
        if not np.allclose(a, b, rtol=0, atol=bound, equal_nan=True):
            return Outcome("wrong", f"{about}\nresult {number} differs by {np.abs(a - b).max()}, more than {bound}")
    return Outcome("ok")


def _run(drawn: Drawn, target: str | None) -> list[np.ndarray]:
    function = burn.compile(drawn.function, drawn.arrays, drawn.dynamic, target=target, cache=False)
    found: Any = function(*drawn.arrays)
    return [np.asarray(each) for each in (found if isinstance(found, (tuple, list)) else [found])]
