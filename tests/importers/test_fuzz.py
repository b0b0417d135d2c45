"""Spoiled models: whatever the bytes, a model is compiled or refused with a BurnError; no traceback, crash or hang.

BURN_FUZZ_CASES sets the number of cases (200), BURN_FUZZ_SEED the first. A case that fails is run again by
`python -m tests.importers.test_fuzz <seed>`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

from burn.errors import BurnError
from tests.onnx_suite.pool import Died, Pool

from .mutate import LARGE, mutate, sources

CASES = int(os.environ.get("BURN_FUZZ_CASES", "200"))
FIRST = int(os.environ.get("BURN_FUZZ_SEED", "1"))
SECONDS = 30.0
MEMORY = 8 << 30  # bytes of address space: nothing in these models needs more, so whoever asks for it trusts the file


@cache
def models() -> list[bytes]:
    return sources()


def attempt(seed: int) -> str:
    """ "imported", "compiled", or "refused" with the error's text; any other exception passes through."""
    data = mutate(models(), seed)
    try:
        return load(data)
    except BurnError as error:
        text = str(error)
        if "internal" in error.summary or "could not be imported: " in text:  # an exception in a BurnError's clothes
            raise AssertionError(text) from error
        return f"refused: {text}"


def load(data: bytes) -> str:
    from burn.compiler import load_onnx
    from burn.importers.onnx import import_onnx

    if len(data) > LARGE:
        import_onnx(data)
        return "imported"
    load_onnx(data, cache=False)
    return "compiled"


def test_spoiled_models_are_refused_and_nothing_else() -> None:
    pool: Pool[int, str] = Pool(attempt, 2, SECONDS, ("burn.importers.onnx", "burn.compiler"), MEMORY)
    seeds = range(FIRST, FIRST + CASES)
    models()  # before the workers are forked
    outcomes: dict[int, Any] = {seeds[index]: answer for index, answer in pool.run(seeds)}
    assert len(outcomes) == CASES
    died = [f"seed {seed}: {a.reason}: {a.message}" for seed, a in sorted(outcomes.items()) if isinstance(a, Died)]
    assert not died, f"{len(died)} of {CASES} cases\n" + "\n".join(died[:10])
    refused = [a for a in outcomes.values() if a.startswith("refused")]
    assert CASES < 50 or CASES > len(refused) > CASES // 4, "the mutations are too weak, or too strong, to say anything"


if __name__ == "__main__":
    print(attempt(int(sys.argv[1])))
