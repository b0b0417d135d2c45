"""Areas under the ROC curve and the precision-recall curve: how well scores rank positive examples above negative ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burn.dialect.types import INTEGERS
from burn.tensors import Tensor
from burn.train.metrics.base import Metric, Totals, full, is_float


class _Ranking(Metric):
    """Base of metrics of rankings. They are exact, so every score is kept until the end of the epoch. For scores [N, C] and
    classes [N] they are the mean over the classes, each against the rest, without those that have no value."""

    of_batch = False
    gathers = True

    def __init__(self, name: str) -> None:
        self.name = name

    def of_class(self, scores: np.ndarray, true: np.ndarray) -> float:
        """The value of one class; NaN if it has none."""
        raise NotImplementedError

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        wanted = "float scores [N, C] and classes, integers [N], or scores and targets of one shape"
        if not isinstance(prediction, Tensor) or not isinstance(target, Tensor) or not is_float(prediction):
            raise self.refuse(wanted, prediction, target)
        prediction = full(prediction)
        if prediction.ndim == 2 and target.ndim == 1 and target.dtype in INTEGERS:
            if prediction.shape[1] == 1:
                raise self.refuse(f"{wanted}: squeeze the axis of one score", prediction, target)
            return {"scores": prediction, "classes": target.astype("int64")}
        if prediction.ndim != target.ndim:
            raise self.refuse(wanted, prediction, target)
        true = target > 0.5 if is_float(target) else target.astype("int64") != 0
        return {"scores": prediction.reshape(-1), "classes": true.reshape(-1)}

    def value(self, totals: Totals) -> float:
        scores, classes = np.asarray(totals["scores"]), np.asarray(totals["classes"])
        if scores.ndim == 1:
            return self.of_class(scores, classes.astype(bool))
        areas = [self.of_class(scores[:, c], classes == c) for c in range(scores.shape[1])]
        known = [a for a in areas if not math.isnan(a)]
        return sum(known) / len(known) if known else math.nan


class AUROC(_Ranking):
    """The probability that a positive example has a higher score than a negative one; ties count half. For scores [N, C] and
    classes [N] the mean over the classes, each against the rest; classes without positives or without negatives do not
    count."""

    def __init__(self, name: str = "auroc") -> None:
        super().__init__(name)

    def of_class(self, scores: np.ndarray, true: np.ndarray) -> float:
        return area(scores, true)


class AUCPR(_Ranking):
    """The area under the precision-recall curve, as average precision: the sum of the precision at each score, times the recall
    gained there (sklearn.metrics.average_precision_score). For scores [N, C] and classes [N] the mean over the classes that have
    positives."""

    def __init__(self, name: str = "aucpr") -> None:
        super().__init__(name)

    def of_class(self, scores: np.ndarray, true: np.ndarray) -> float:
        if not true.any() or np.isnan(scores).any():
            return math.nan
        order = np.argsort(-scores, kind="stable")
        last = np.append(np.diff(scores[order]) != 0, True)  # of equal scores, which are accepted together
        right, given = np.cumsum(true[order])[last], np.flatnonzero(last) + 1
        gained = np.diff(right, prepend=0) / right[-1]
        return float((gained * (right / given)).sum())


def area(scores: np.ndarray, true: np.ndarray) -> float:
    """Of one class, by the ranks of the scores (Mann and Whitney's U); NaN where all or none are true."""
    positive, negative = int(true.sum()), int((~true).sum())
    if not positive or not negative or np.isnan(scores).any():
        return math.nan
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0  # the mean rank of equal scores, from 1 on
    return float((ranks[which][true].sum() - positive * (positive + 1) / 2) / (positive * negative))
