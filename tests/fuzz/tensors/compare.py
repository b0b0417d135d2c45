"""Differences between results: elements that rounding alone does not explain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.fuzz.tensors.numpy_side import is_float

NEAR = {"float64": 1e-11, "float32": 2e-5, "float16": 6e-3, "bfloat16": 5e-2}
SPREADS = 60
"""Times that an element may be off by as much as runs with noise differ."""


def difference(ours: np.ndarray, theirs: np.ndarray, twins: Sequence[np.ndarray], spreads: float = SPREADS) -> str:
    """The first difference in words; empty where there is none. twins: what numpy computes with noise."""
    if any(t.shape != theirs.shape for t in twins):
        return ""  # rounding decides how many elements there are
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, numpy {theirs.dtype}{list(theirs.shape)}"
    if not theirs.size:
        return ""
    bad = _floats(ours, theirs, twins, spreads) if is_float(theirs.dtype) else _exact(ours, theirs, twins)
    if not bad.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{bad.sum()} of {bad.size} elements; at {list(index)} {ours[index]}, numpy {theirs[index]}"


def _exact(ours: np.ndarray, theirs: np.ndarray, twins: Sequence[np.ndarray]) -> np.ndarray:
    bad = np.asarray(ours != theirs)
    for twin in twins:
        bad &= twin == theirs
    return bad


def _floats(ours: np.ndarray, theirs: np.ndarray, twins: Sequence[np.ndarray], spreads: float) -> np.ndarray:
    x, y, others = ours.astype(np.float64), theirs.astype(np.float64), [t.astype(np.float64) for t in twins]
    finite = np.isfinite(y)
    top = float(np.abs(y[finite]).max(initial=0))
    spread = np.zeros_like(y)
    decided = np.ones(y.shape, bool)
    for other in others:
        decided &= (np.isfinite(other) == finite) & (np.isnan(other) == np.isnan(y))
        spread = np.maximum(spread, np.where(finite & np.isfinite(other), np.abs(other - y), 0))
    near = NEAR[theirs.dtype.name]
    allowed = near * np.abs(y) + near * 0.2 * top + spreads * spread + near * 0.01
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (finite & (np.abs(x - y) <= allowed))
    return ~same & decided & (spreads * spread <= 0.5 * top + 1e-30)
