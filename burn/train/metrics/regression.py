"""Metrics of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burn.tensors import Tensor
from burn.train.metrics.base import Metric, Totals, count_of, is_float, ratio, total


class _Numbers(Metric):
    better = "min"

    def both(self, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
        """Both in float64, in which sums lose nothing."""
        if not isinstance(prediction, Tensor) or not is_float(prediction) or prediction.ndim != target.ndim:
            raise self.refuse("float predictions and targets of one shape", prediction, target)
        return prediction.astype("float64"), target.astype("float64")


class MAE(_Numbers):
    """The mean absolute error."""

    def __init__(self, name: str = "mae") -> None:
        self.name = name

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        p, t = self.both(prediction, target)
        return {"sum": total((p - t).abs()), "count": count_of(p)}

    def value(self, totals: Totals) -> float:
        return ratio(totals["sum"], totals["count"])


class RMSE(_Numbers):
    """The square root of the mean squared error."""

    def __init__(self, name: str = "rmse") -> None:
        self.name = name

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        p, t = self.both(prediction, target)
        return {"sum": total((p - t) ** 2), "count": count_of(p)}

    def value(self, totals: Totals) -> float:
        return math.sqrt(ratio(totals["sum"], totals["count"]))


class R2(_Numbers):
    """1 - squared errors / squared distances of the targets from their mean."""

    better = "max"
    of_batch = False

    def __init__(self, name: str = "r2") -> None:
        self.name = name

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        p, t = self.both(prediction, target)
        mean = t.mean()
        spread = total((t - mean) ** 2)
        return {"errors": total((p - t) ** 2), "spread": spread, "mean": mean, "count": count_of(p)}

    def merged(self, totals: Totals, counts: Totals) -> dict[str, np.ndarray]:
        """Of two groups' means and spreads, those of both together (Chan et al. 1979): a sum of squares would cancel."""
        a, b = float(totals["count"]), float(counts["count"])
        if not b:
            return dict(totals)
        apart = float(counts["mean"]) - float(totals["mean"])
        return {
            "errors": totals["errors"] + counts["errors"],
            "spread": totals["spread"] + counts["spread"] + np.array(apart**2 * a * b / (a + b)),
            "mean": totals["mean"] + np.array(apart * b / (a + b)),
            "count": totals["count"] + counts["count"],
        }

    def value(self, totals: Totals) -> float:
        return 1.0 - ratio(totals["errors"], totals["spread"])
