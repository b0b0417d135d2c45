"""Calibration: the ranges of a model's tensors over samples.

burn runs the model with these tensors as additional outputs. Values outside of a range are clipped; the methods trade clipping
for finer steps. `ranges` is the entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from burn.errors import BurnError, Problem
from burn.loading import load
from burn.quantization.samples import Sample, run

BINS = 2048
"""Of a histogram."""

STEPS = 255
"""Of a quantised range."""

SHARES = 100
"""Of a range that are tried for the least error."""


@dataclass(frozen=True)
class Range:
    low: float
    high: float


def ranges(
    model: onnx.ModelProto, names: Sequence[str], samples: Sequence[Sample], method: str, percentile: float
) -> dict[str, Range]:
    """The range of each of the tensors. Raises BurnError where samples are missing, do not fit the model, or give no numbers."""
    if method not in METHODS:
        raise BurnError(f"there is no calibration by '{method}'", [f"the methods are {', '.join(METHODS)}"])
    if not samples:
        raise BurnError("static quantisation needs samples to calibrate with", ["or quantise dynamically, without any"])
    if not 50 < percentile <= 100:
        raise BurnError(f"a percentile lies between 50 and 100, not at {percentile}")
    extremes = _extremes(model, names, samples)
    infinite = [n for n, r in extremes.items() if not np.isfinite([r.low, r.high]).all()]
    if infinite:
        raise BurnError("the samples make numbers that are not finite", [Problem(f"'{name}'") for name in infinite])
    choose = METHODS[method]
    if choose is None:
        return extremes
    counts = {name: np.zeros(BINS, np.int64) for name in names}
    for values in _observed(model, names, samples):
        for name, array in zip(names, values, strict=True):
            seen = extremes[name]
            high = seen.high if seen.high > seen.low else seen.low + 1
            counts[name] += np.histogram(array, BINS, (seen.low, high))[0]
    return {name: choose(counts[name], extremes[name], percentile) for name in names}


def _extremes(model: onnx.ModelProto, names: Sequence[str], samples: Sequence[Sample]) -> dict[str, Range]:
    """The least and the largest element, which the model itself reduces its tensors to."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    made = [(f"{name}__{kind}", kind, name) for name in names for kind in ("ReduceMin", "ReduceMax")]
    tapped.graph.node.extend(helper.make_node(kind, [name], [output], keepdims=0) for output, kind, name in made)
    found: dict[str, Range] = {}
    for values in _observed(tapped, [output for output, *_ in made], samples):
        for name, low, high in zip(names, values[::2], values[1::2], strict=True):
            before = found.get(name, Range(float("inf"), float("-inf")))
            found[name] = Range(float(np.minimum(before.low, low)), float(np.maximum(before.high, high)))
    return found


def _observed(model: onnx.ModelProto, names: Sequence[str], samples: Sequence[Sample]) -> Iterator[list[np.ndarray]]:
    """The tensors of each sample."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    del tapped.graph.output[:]
    tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    executable = load(tapped, cache=False)
    for sample in samples:
        yield run(executable, sample)


def _by_percentile(counts: np.ndarray, seen: Range, percentile: float) -> Range:
    """The range after clipping the same fraction of elements at both ends."""
    edges = np.linspace(seen.low, seen.high, BINS + 1)
    share = np.cumsum(counts) / max(1, counts.sum())
    tail = (1 - percentile / 100) / 2
    low, high = np.searchsorted(share, tail, side="right"), np.searchsorted(share, 1 - tail)
    return Range(float(edges[low]), float(edges[min(high + 1, BINS)]))


def _by_error(counts: np.ndarray, seen: Range, percentile: float) -> Range:
    """The range, shortened equally at both ends, with the least squared error: of rounding inside and of clipping
    outside."""
    edges = np.linspace(seen.low, seen.high, BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2

    def lost(share: float) -> float:
        low, high = min(seen.low, 0) * share, max(seen.high, 0) * share
        clipped = middles - np.clip(middles, low, high)
        return float((counts * (clipped**2 + np.where(clipped == 0, ((high - low) / STEPS) ** 2 / 12, 0))).sum())

    share = min(np.linspace(1, 1 / SHARES, SHARES), key=lost)
    return Range(float(min(seen.low, 0) * share), float(max(seen.high, 0) * share))


METHODS: dict[str, Callable[[np.ndarray, Range, float], Range] | None] = {
    "minmax": None,
    "percentile": _by_percentile,
    "mse": _by_error,
}
"""How a range is chosen: all that was seen; all but a share of outliers; what has the least squared error."""
