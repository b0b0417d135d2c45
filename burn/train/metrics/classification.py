"""Metrics of classification, with several classes or binary.

Predictions are scores [N, C, d..] for classes [N, d..], with the classes on axis 1, as for the losses, or on `axis`. Binary
scores have the shape of the targets: positive above `threshold`, which is 0 for logits and 0.5 for probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from burn.dialect.types import INTEGERS
from burn.errors import TypeMismatch
from burn.tensors import Tensor
from burn.tensors.concatenation import where
from burn.tensors.creation import arange, zeros
from burn.train.metrics.base import Metric, Totals, is_float, ratio, total

Average = Literal["macro", "micro", "weighted", "binary"]


class _Decisions(Metric):
    """Base of classification metrics. ignore_index: a class (padding) that does not count."""

    def __init__(self, name: str, axis: int, threshold: float, ignore_index: int | None) -> None:
        self.name = name
        self.axis, self.threshold, self.ignore_index = axis, threshold, ignore_index

    def decided(self, prediction: Any, target: Any) -> tuple[Tensor, Tensor, Tensor]:
        """(predicted class, true class, mask of elements that count), of one shape."""
        wanted = "scores [N, C, d..] and classes, integers [N, d..], or scores and targets of one shape"
        if not isinstance(prediction, Tensor) or not isinstance(target, Tensor):
            raise self.refuse(wanted, prediction, target)
        if prediction.ndim == target.ndim + 1 and target.dtype in INTEGERS:
            if prediction.shape[self.axis] == 1:  # the only class there is would always be right or always be wrong
                raise self.refuse(f"{wanted}: squeeze the axis of one score", prediction, target)
            predicted = prediction.argmax(self.axis)
        elif prediction.ndim == target.ndim:
            predicted = prediction > self.threshold if is_float(prediction) else prediction
            target = target > 0.5 if is_float(target) else target
        else:
            raise self.refuse(wanted, prediction, target)
        target = target.astype("int64")
        counted = target == target if self.ignore_index is None else target != self.ignore_index
        return predicted.astype("int64"), target, counted


class Accuracy(_Decisions):
    """The share of decisions that are right."""

    def __init__(
        self, axis: int = 1, threshold: float = 0.0, ignore_index: int | None = None, name: str = "accuracy"
    ) -> None:
        super().__init__(name, axis, threshold, ignore_index)

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        predicted, truth, counted = self.decided(prediction, target)
        return {"right": total((predicted == truth) & counted), "count": total(counted)}

    def value(self, totals: Totals) -> float:
        return ratio(totals["right"], totals["count"])


class HammingScore(Accuracy):
    """The share of labels that are right, of scores and targets [N, labels] of examples that may have several labels. The
    Hamming loss is 1 minus this score."""

    def __init__(self, threshold: float = 0.0, ignore_index: int | None = None, name: str = "hamming") -> None:
        super().__init__(1, threshold, ignore_index, name)

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        if getattr(prediction, "ndim", 0) < 2 or getattr(prediction, "ndim", 0) != getattr(target, "ndim", 0):
            raise self.refuse("scores and targets, both [N, labels]", prediction, target)
        return super().counts(prediction, target)


class TopK(Metric):
    """The share of targets that are among the k classes with the highest scores; of equal scores those of lower classes count
    as higher."""

    def __init__(self, k: int, axis: int = 1, ignore_index: int | None = None, name: str = "") -> None:
        if k < 1:
            raise TypeMismatch("TopK needs a k of at least 1", [f"not {k}"])
        self.name, self.k, self.axis, self.ignore_index = name or f"top{k}", k, axis, ignore_index

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        if not (isinstance(target, Tensor) and target.dtype in INTEGERS and prediction.ndim == target.ndim + 1):
            raise self.refuse("scores [N, C, d..] and classes, integers [N, d..]", prediction, target)
        classes = prediction.shape[self.axis]
        if isinstance(classes, int) and classes < self.k:
            raise self.refuse(f"scores of at least {self.k} classes", prediction)
        truth = target.astype("int64")
        counted = truth == truth if self.ignore_index is None else truth != self.ignore_index
        safe = where(counted, truth, 0)
        scores = prediction.moveaxis(self.axis, -1)
        own = scores.take_along_axis(safe.unsqueeze(-1), -1)
        before = (scores == own) & (arange(classes) < safe.unsqueeze(-1))
        rank = ((scores > own) | before).astype("int64").sum(-1)
        ranked = own.squeeze(-1) == own.squeeze(-1)  # NaN has no rank
        return {"right": total((rank < self.k) & counted & ranked), "count": total(counted)}

    def value(self, totals: Totals) -> float:
        return ratio(totals["right"], totals["count"])


class _Rates(_Decisions):
    """Base of precision, recall and F: for each class the numbers of true positives, predictions and targets."""

    def __init__(
        self,
        average: Average = "macro",
        axis: int = 1,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str = "",
    ) -> None:
        if average not in ("macro", "micro", "weighted", "binary"):
            raise TypeMismatch("average is macro, micro, weighted or binary", [f"not {average!r}"])
        super().__init__(name or type(self).__name__.lower(), axis, threshold, ignore_index)
        self.average = average

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        predicted, truth, counted = self.decided(prediction, target)
        if prediction.ndim == target.ndim and not is_float(prediction):
            raise self.refuse("scores, which say how many classes there are", prediction)
        many = prediction.ndim == target.ndim + 1
        if many and self.average == "binary" and prediction.shape[self.axis] != 2:
            raise self.refuse("scores of two classes, or of yes and no, where average is binary", prediction, target)
        if many:
            classes = arange(prediction.shape[self.axis])
            given, true = predicted.unsqueeze(-1) == classes, truth.unsqueeze(-1) == classes
            given, true = given & counted.unsqueeze(-1), true & counted.unsqueeze(-1)
        else:
            given, true = (predicted == 1) & counted, (truth == 1) & counted
            labels = given.ndim > 1 and self.average != "binary"  # [N, labels]: each is a class of its own
            given, true = (given, true) if labels else (given.reshape(-1, 1), true.reshape(-1, 1))
        others = tuple(range(given.ndim - 1))
        sums = {"right": given & true, "given": given, "true": true}
        return {name: x.astype("int64").sum(others) for name, x in sums.items()}

    def rate(self, right: np.ndarray, given: np.ndarray, true: np.ndarray) -> np.ndarray:
        """The metric of each class; NaN where it has none."""
        raise NotImplementedError

    def value(self, totals: Totals) -> float:
        right, given, true = (np.asarray(totals[k], np.float64) for k in ("right", "given", "true"))
        if self.average == "binary":
            right, given, true = right[-1], given[-1], true[-1]
        elif self.average == "micro":
            right, given, true = right.sum(), given.sum(), true.sum()
        rates = np.asarray(self.rate(right, given, true))
        if rates.ndim == 0:
            return float(rates)
        seen = (given + true) > 0  # a class that is neither predicted nor true says nothing
        rates = np.where(np.isnan(rates), 0.0, rates)[seen]
        weights = true[seen] if self.average == "weighted" else np.ones(rates.shape)
        return ratio((rates * weights).sum(), weights.sum())


def _divided(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.asarray(whole) > 0)


class Precision(_Rates):
    """The fraction of predictions of a class that are right. average: "macro" is the mean over classes that occur,
    "weighted" weighs them by their number of targets, "micro" counts all decisions equally, "binary" is for the positive class
    (class 1 of two)."""

    def rate(self, right: np.ndarray, given: np.ndarray, true: np.ndarray) -> np.ndarray:
        return _divided(right, given)


class Recall(_Rates):
    """The fraction of a class's targets that are predicted. average: see `Precision`."""

    def rate(self, right: np.ndarray, given: np.ndarray, true: np.ndarray) -> np.ndarray:
        return _divided(right, true)


class FBeta(_Rates):
    """(1 + beta^2) precision recall / (beta^2 precision + recall). average: see `Precision`."""

    def __init__(
        self,
        beta: float = 1.0,
        average: Average = "macro",
        axis: int = 1,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str = "",
    ) -> None:
        if not beta > 0:
            raise TypeMismatch("FBeta needs a beta of more than 0", [f"not {beta}"])
        super().__init__(average, axis, threshold, ignore_index, name or f"f{beta:g}")
        self.beta = beta

    def rate(self, right: np.ndarray, given: np.ndarray, true: np.ndarray) -> np.ndarray:
        square = self.beta**2
        return _divided((1 + square) * right, square * true + given)


class ConfusionMatrix(_Decisions):
    """How often each class (a row) was taken for each (a column): a table, told when an epoch ends."""

    of_batch = False

    def __init__(
        self,
        classes: int | Sequence[str],
        axis: int = 1,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str = "confusion",
    ) -> None:
        """classes: how many, or their names."""
        super().__init__(name, axis, threshold, ignore_index)
        self.labels = tuple(map(str, range(classes))) if isinstance(classes, int) else tuple(classes)
        if len(self.labels) < 2:
            raise TypeMismatch("a confusion matrix needs at least two classes", [f"not {len(self.labels)}"])

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        predicted, truth, counted = self.decided(prediction, target)
        size = len(self.labels)
        known = (truth >= 0) & (truth < size) & (predicted >= 0) & (predicted < size)
        # a bin more for what does not count, and one beyond the last, which is an error, for a class that is none
        position = where(counted, where(known, truth * size + predicted, size * size + 1), size * size).reshape(-1)
        bins = zeros(size * size + 1, dtype="int64").at[position].add(1)
        return {"table": bins[: size * size].reshape(size, size)}

    def value(self, totals: Totals) -> np.ndarray:
        return np.asarray(totals["table"])


class Dice(_Rates):
    """2 |A and B| / (|A| + |B|) of predicted and true elements, for segmentation: F1 of each class over all elements. background:
    without it class 0 of several classes does not count. average: see `Precision`."""

    def __init__(
        self,
        average: Average = "macro",
        background: bool = True,
        axis: int = 1,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str = "dice",
    ) -> None:
        super().__init__(average, axis, threshold, ignore_index, name)
        self.background = background

    def value(self, totals: Totals) -> float:
        if not self.background and np.size(totals["true"]) > 1:
            totals = {key: np.asarray(found)[1:] for key, found in totals.items()}
        return super().value(totals)

    def rate(self, right: np.ndarray, given: np.ndarray, true: np.ndarray) -> np.ndarray:
        return _divided(2.0 * right, given + true)
