"""One spoiled model: imported, compiled and run as far as it goes. Enter at `case`."""

from __future__ import annotations

import traceback
from functools import cache
from math import prod

import numpy as np

from burn.dialect.types import numpy_dtype
from burn.errors import BurnError
from burn.runtime.artefact import ValueSpec
from tests.fuzz.runner import Outcome
from tests.fuzz.spoiled_models.mutate import LARGE, mutate, sources

SECONDS = 120.0
MEMORY = 8 << 30  # bytes of address space: these models need less, so a larger allocation trusts a size in the file


@cache
def models() -> list[bytes]:
    return sources()


def case(seed: int) -> Outcome:
    """How far a seed's model came."""
    try:
        return Outcome("ok", load(mutate(models(), seed)))
    except BurnError as error:
        text = str(error)
        # An unexpected exception that a BurnError wraps is also a failure.
        inside = "internal" in error.summary or "could not be imported: " in text
        return Outcome("internal" if inside else "refused", text)
    except Exception:
        return Outcome("exception", traceback.format_exc())


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
    """Something to run a program on, named sizes being 2; None when it would be large, or no plain tensor."""
    shape = [dim if isinstance(dim, int) else 2 for dim in getattr(spec, "dims", ())]
    if getattr(spec, "dtype", "string") == "string" or max(prod(shape), *shape, 0) > LARGE:
        return None
    return (np.arange(prod(shape)).reshape(shape) % 5).astype(numpy_dtype(spec.dtype))
