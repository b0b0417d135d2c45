"""How far a quantised model's outputs are from the float model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from burn.loading import load
from burn.quantization.samples import Sample, run


@dataclass(frozen=True)
class Agreement:
    """Agreement of one output over all samples. `largest`: the largest difference. `noise`: the signal-to-noise ratio in
    dB. `top1`: the fraction of rows with the same argmax; None if rows have one element or no floats."""

    name: str
    rows: int
    largest: float
    noise: float
    top1: float | None


def compare(model: onnx.ModelProto, quantised: onnx.ModelProto, samples: Sequence[Sample]) -> list[Agreement]:
    """Both models run by burn on every sample."""
    first, second = load(model, cache=False), load(quantised, cache=False)
    pairs: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in first.outputs]
    for sample in samples:
        for kept, pair in zip(pairs, zip(run(first, sample), run(second, sample), strict=True), strict=True):
            kept.append(pair)
    return [_agreement(spec.name, kept) for spec, kept in zip(first.outputs, pairs, strict=True)]


def _agreement(name: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Agreement:
    largest = power = lost = 0.0
    rows = same = 0
    ranked = all(a.dtype.kind == "f" and a.ndim > 1 and a.shape[-1] > 1 for a, _ in pairs)
    for a, b in pairs:
        wide = a.astype(np.float64)
        off = b.astype(np.float64) - wide
        largest = max(largest, float(np.abs(off).max(initial=0)))
        power, lost = power + float((wide**2).sum()), lost + float((off**2).sum())
        if ranked:
            hits = a.argmax(axis=-1) == b.argmax(axis=-1)
            rows, same = rows + hits.size, same + int(hits.sum())
        else:
            rows += a.shape[0] if a.ndim else 1
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = float(10 * np.log10(np.float64(power) / lost)) if lost else float("inf")
    return Agreement(name, rows, largest, noise, same / rows if ranked and rows else None)
