"""Compares burn's results with ONNX Runtime's, up to noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from .noise import FLOOR, allowed, largest, rounding
from .values import FLOATS, Array

RELATIVE = {"float32": 2e-5, "float64": 1e-11, "float16": 4e-3}


def difference(got: Any, want: Array, twin: Array) -> str | None:
    """The difference, or None."""
    got = np.asarray(got)
    if got.dtype != want.dtype:
        return f"type {got.dtype} instead of {want.dtype}"
    if got.shape != want.shape:
        return f"shape {list(got.shape)} instead of {list(want.shape)}"
    wrong = far(got, want, twin) if want.dtype in FLOATS else (got != want) & (want == twin)
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, at {list(index)} {got[index]!r} instead of {want[index]!r}"


def far(got: Array, want: Array, twin: Array) -> Array:
    """Where floats differ by more than the noise, and the noise leaves something to say."""
    kind = want.dtype.name
    a, b, c = (x.astype(np.float64) for x in (got, want, twin))
    with np.errstate(all="ignore"):
        top, noise = largest(b), np.abs(c - b)
        relative = max(RELATIVE[kind], 8 * rounding() if kind == "float32" else 0.0)
        most = relative * (np.abs(b) + 0.2 * top) + allowed() * noise + FLOOR[kind]
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= most)
        certain = (
            (np.isfinite(c) == np.isfinite(b)) & (np.isnan(c) == np.isnan(b)) & ~(allowed() * noise > 0.5 * top + 1e-30)
        )
    return ~same & certain
