"""Metrics of text: perplexity, error rates, BLEU and ROUGE-L."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from burn.dialect.types import INTEGERS
from burn.errors import TypeMismatch
from burn.tensors import Tensor
from burn.tensors.concatenation import where
from burn.train.metrics.base import Metric, Totals, full, is_float, ratio, total


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


class _Sequences(Metric):
    """Base of metrics of written and true sequences. Predictions are ids [N, T], or scores [N, T, C], whose argmax the step
    takes; targets are ids [N, S]."""

    def __init__(self, pad: int | Sequence[int] | None, blank: int | None, space: int | None, name: str) -> None:
        """pad: ids that are no part of either sequence. blank: CTC's: equal neighbours become one, then it goes. space: the id
        that separates words, if units are words of several ids."""
        self.name = name
        self.pad = (pad,) if isinstance(pad, int) else tuple(pad or ())
        self.blank, self.space = blank, space

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

    def pairs(self, counts: Totals) -> Iterator[tuple[list[Any], list[Any]]]:
        """The units of each written sequence and of its target."""
        for written, true in zip(counts["written"].tolist(), counts["true"].tolist(), strict=True):
            if self.blank is not None:
                written = [i for k, i in enumerate(written) if (k == 0 or i != written[k - 1]) and i != self.blank]
            hypothesis, reference = (self.units([i for i in s if i not in self.pad]) for s in (written, true))
            yield hypothesis, reference


class _Edits(_Sequences):
    """Base of error rates: edits (insertions, deletions, replacements) divided by the target's length."""

    better = "min"

    def reduced(self, counts: Totals) -> dict[str, np.ndarray]:
        edits = length = 0
        for hypothesis, reference in self.pairs(counts):
            edits += distance(hypothesis, reference)
            length += len(reference)
        return {"edits": np.array(edits), "length": np.array(length)}

    def value(self, totals: Totals) -> float:
        return float(totals["edits"]) / float(totals["length"]) if totals["length"] else math.nan


class CER(_Edits):
    """The character error rate: edits of ids, one id for each character (or other unit)."""

    def __init__(self, pad: int | Sequence[int] | None = None, blank: int | None = None, name: str = "cer") -> None:
        super().__init__(pad, blank, None, name)


class WER(_Edits):
    """The word error rate. space: the id that separates words; without it each id is a word."""

    def __init__(
        self,
        space: int | None = None,
        pad: int | Sequence[int] | None = None,
        blank: int | None = None,
        name: str = "wer",
    ) -> None:
        super().__init__(pad, blank, space, name)


class BLEU(_Sequences):
    """The corpus's BLEU with n-grams up to `order`, from 0 to 1 (Papineni et al., 2002): the geometric mean of the clipped
    precisions of n-grams, times exp(1 - reference length / written length) if less is written. space: as for `WER`.
    smooth: "exp" gives the k-th precision without a match 1 / (2^k n-grams), as sacrebleu by default (which reports
    percents); None gives 0 then."""

    def __init__(
        self,
        order: int = 4,
        smooth: Literal["exp"] | None = None,
        space: int | None = None,
        pad: int | Sequence[int] | None = None,
        name: str = "bleu",
    ) -> None:
        if order < 1 or smooth not in (None, "exp"):
            raise TypeMismatch("BLEU does not take these options", [f"order={order}, smooth={smooth!r}"])
        super().__init__(pad, None, space, name)
        self.order, self.smooth = order, smooth

    def reduced(self, counts: Totals) -> dict[str, np.ndarray]:
        right, given, lengths = np.zeros(self.order, np.int64), np.zeros(self.order, np.int64), np.zeros(2, np.int64)
        for hypothesis, reference in self.pairs(counts):
            lengths += (len(hypothesis), len(reference))
            for n in range(1, self.order + 1):
                own, theirs = _grams(hypothesis, n), _grams(reference, n)
                right[n - 1] += (own & theirs).total()
                given[n - 1] += own.total()
        return {"right": right, "given": given, "lengths": lengths}

    def value(self, totals: Totals) -> float:
        right, given = totals["right"].tolist(), totals["given"].tolist()
        written, true = totals["lengths"].tolist()
        if not true:
            return math.nan
        if not all(given) or not any(right) or (not all(right) and self.smooth is None):
            return 0.0
        logs, missing = 0.0, 0
        for matches, count in zip(right, given, strict=True):
            missing += not matches
            logs += math.log(matches / count if matches else 1.0 / (2.0**missing * count))
        return math.exp(logs / self.order + min(0.0, 1.0 - true / written))


class ROUGEL(_Sequences):
    """ROUGE-L: the mean over the sequences of the F1 of their longest common subsequence with the target (Lin, 2004). space: as
    for `WER`. As rouge_score's rougeL without stemming."""

    def __init__(self, space: int | None = None, pad: int | Sequence[int] | None = None, name: str = "rouge-l") -> None:
        super().__init__(pad, None, space, name)

    def reduced(self, counts: Totals) -> dict[str, np.ndarray]:
        found = [
            2.0 * common(hypothesis, reference) / (len(hypothesis) + len(reference)) if hypothesis or reference else 0.0
            for hypothesis, reference in self.pairs(counts)
        ]
        return {"sum": np.array(sum(found)), "count": np.array(len(found))}

    def value(self, totals: Totals) -> float:
        return ratio(totals["sum"], totals["count"])


def _grams(units: Sequence[Any], n: int) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(units[i : i + n]) for i in range(len(units) - n + 1))


def _numbered(first: Sequence[Any], second: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Equal units as equal numbers."""
    numbers: dict[Any, int] = {}
    a, b = (np.array([numbers.setdefault(u, len(numbers)) for u in s], np.int64) for s in (first, second))
    return a, b


def common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The length of the longest common subsequence, by rows of the table."""
    a, b = _numbered(first, second)
    row = np.zeros(len(b) + 1, np.int64)
    for unit in a:
        row[1:] = np.maximum.accumulate(np.maximum(row[1:], row[:-1] + (b == unit)))
    return int(row[-1])


def distance(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The Levenshtein distance: the number of insertions, deletions and replacements. Computed by rows of the table;
    a running minimum propagates the cost of insertions along a row."""
    a, b = _numbered(first, second)
    along = np.arange(len(b) + 1)
    row = along.copy()
    for i, unit in enumerate(a):
        best = np.minimum(row[1:] + 1, row[:-1] + (b != unit))
        row = np.minimum.accumulate(np.concatenate([[i + 1], best]) - along) + along
    return int(row[-1])
