"""Metrics of text: perplexity and error rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.dialect.types import INTEGERS
from burn.tensors import Tensor
from burn.tensors.concatenation import where
from burn.train.metrics.base import Metric, Totals, full, is_float, total


class Perplexity(Metric):
    """exp of the mean negative log probability of the true classes: of scores [N, C, d..] and classes [N, d..]."""

    better = "min"

    def __init__(self, axis: int = 1, ignore_index: int | None = None, name: str = "perplexity") -> None:
        self.name, self.axis, self.ignore_index = name, axis, ignore_index

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        if not (isinstance(target, Tensor) and target.dtype in INTEGERS and prediction.ndim == target.ndim + 1):
            raise self.refuse("scores [N, C, d..] and classes, integers [N, d..]", prediction, target)
        truth = target.astype("int64")
        counted = truth == truth if self.ignore_index is None else truth != self.ignore_index
        safe = where(counted, truth, 0).unsqueeze(self.axis)
        chosen = full(prediction).log_softmax(self.axis).take_along_axis(safe, self.axis).squeeze(self.axis)
        return {"surprise": total(where(counted, -chosen, 0.0)), "count": total(counted)}

    def value(self, totals: Totals) -> float:
        if not totals["count"]:
            return math.nan
        mean = float(totals["surprise"]) / float(totals["count"])
        return math.exp(mean) if mean < 700 else math.inf


class _Edits(Metric):
    """Base of error rates: edits (insertions, deletions, replacements) divided by the target's length.

    Predictions are ids [N, T], or scores [N, T, C], whose argmax the step takes; targets are ids [N, S]."""

    better = "min"

    def __init__(self, pad: int | Sequence[int] | None, blank: int | None, name: str) -> None:
        """pad: ids that are no part of either sequence. blank: CTC's: equal neighbours become one, then it goes."""
        self.name = name
        self.pad = (pad,) if isinstance(pad, int) else tuple(pad or ())
        self.blank = blank

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        fits = isinstance(target, Tensor) and target.ndim == 2 and target.dtype in INTEGERS
        scores = isinstance(prediction, Tensor) and prediction.ndim == 3 and is_float(prediction)
        ids = isinstance(prediction, Tensor) and prediction.ndim == 2 and prediction.dtype in INTEGERS
        if not fits or not (scores or ids):
            raise self.refuse("scores [N, T, C] or ids [N, T], and ids [N, S]", prediction, target)
        written = prediction.argmax(-1) if scores else prediction
        return {"written": written.astype("int64"), "true": target.astype("int64")}

    def units(self, ids: list[int]) -> list[Any]:
        """The units of a sequence."""
        return ids

    def reduced(self, counts: Totals) -> dict[str, np.ndarray]:
        edits = length = 0
        for written, true in zip(counts["written"].tolist(), counts["true"].tolist(), strict=True):
            if self.blank is not None:
                written = [i for k, i in enumerate(written) if (k == 0 or i != written[k - 1]) and i != self.blank]
            hypothesis, reference = (self.units([i for i in s if i not in self.pad]) for s in (written, true))
            edits += distance(hypothesis, reference)
            length += len(reference)
        return {"edits": np.array(edits), "length": np.array(length)}

    def value(self, totals: Totals) -> float:
        return float(totals["edits"]) / float(totals["length"]) if totals["length"] else math.nan


class CER(_Edits):
    """The character error rate: edits of ids, one id for each character (or other unit)."""

    def __init__(self, pad: int | Sequence[int] | None = None, blank: int | None = None, name: str = "cer") -> None:
        super().__init__(pad, blank, name)


class WER(_Edits):
    """The word error rate. space: the id that separates words; without it each id is a word."""

    def __init__(
        self,
        space: int | None = None,
        pad: int | Sequence[int] | None = None,
        blank: int | None = None,
        name: str = "wer",
    ) -> None:
        super().__init__(pad, blank, name)
        self.space = space

    def units(self, ids: list[int]) -> list[Any]:
        if self.space is None:
            return ids
        words: list[tuple[int, ...]] = []
        word: list[int] = []
        for i in [*ids, self.space]:
            if i != self.space:
                word.append(i)
            elif word:
                words.append(tuple(word))
                word = []
        return words


def distance(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The Levenshtein distance: the number of insertions, deletions and replacements. Computed by rows of the table;
    a running minimum propagates the cost of insertions along a row."""
    numbers: dict[Any, int] = {}
    a, b = (np.array([numbers.setdefault(u, len(numbers)) for u in s], np.int64) for s in (first, second))
    along = np.arange(len(b) + 1)
    row = along.copy()
    for i, unit in enumerate(a):
        best = np.minimum(row[1:] + 1, row[:-1] + (b != unit))
        row = np.minimum.accumulate(np.concatenate([[i + 1], best]) - along) + along
    return int(row[-1])
