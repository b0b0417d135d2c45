"""Spoiled models: whatever the bytes, a model runs or is refused with a BurnError; no traceback, crash or hang.

BURN_FUZZ_CASES sets the number of cases (200), BURN_FUZZ_SEED the first. A case that fails is run again by
`python -m tests.importers.test_fuzz <seed>`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from math import prod
from typing import Any

import numpy as np

from burn.dialect.types import numpy_dtype
from burn.errors import BurnError
from burn.runtime.artefact import ValueSpec
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
    """How far it came, or "refused" with the error's text; any other exception passes through."""
    data = mutate(models(), seed)
    try:
        return load(data)
    except BurnError as error:
        text = str(error)
        if "internal" in error.summary or "could not be imported: " in text:  # an exception in a BurnError's clothes
            raise AssertionError(text) from error
        return f"refused: {text}"


def load(data: bytes) -> str:
    from burn.adapters.onnx import load_onnx
    from burn.importers.onnx import import_onnx

    if len(data) > LARGE:
        import_onnx(data)
        return "imported"
    executable = load_onnx(data)
    inputs = {spec.name: sample(spec) for spec in executable.inputs}
    if any(array is None for array in inputs.values()):
        return "compiled"
    executable.run(inputs)
    return "run"


def sample(spec: ValueSpec) -> np.ndarray | None:
    """Something to run a program on, named sizes being 2; None when it would be large."""
    shape = [dim if isinstance(dim, int) else 2 for dim in spec.dims]
    if prod(shape) > LARGE or spec.dtype == "string":
        return None
    return (np.arange(prod(shape)).reshape(shape) % 5).astype(numpy_dtype(spec.dtype))


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
