"""`Metric`: counts of a batch from the compiled step, summed on the host, and the value of the sums.

    class Bias(Metric):
        \"\"\"The mean of prediction - target.\"\"\"

        name = "bias"

        def counts(self, prediction, target):           # in the compiled step: small tensors
            return {"sum": (prediction - target).sum(), "count": count_of(target)}

        def value(self, totals):                         # on the host: the sums of all batches, numpy arrays
            return ratio(totals["sum"], totals["count"])

A metric has no state: a `Tally` holds the counts. So one metric serves training and validation, and a checkpoint contains the
sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from burn.dialect.types import FLOATS
from burn.errors import TypeMismatch
from burn.runtime.arrays import on_host
from burn.tensors import Tensor
from burn.tensors.creation import ones_like
from burn.train.events import Better

Totals = Mapping[str, np.ndarray]


LOSS = "loss"
"""Name of the loss's counts among those of the metrics."""


class Metric:
    """Base of metrics counted in the step. `name`: its name in logs; `better`: the better direction.
    of_batch: its value for one batch is meaningful. gathers: counts of batches are concatenated instead of
    summed."""

    name: str = ""
    better: Better = "max"
    of_batch: ClassVar[bool] = True
    gathers: ClassVar[bool] = False

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        """The counts of a batch, from the loss function's prediction and target. Part of the compiled step. Raises
        TypeMismatch for unsuitable tensors."""
        raise NotImplementedError(f"{type(self).__name__} has no counts")

    def value(self, totals: Totals) -> Any:
        """The metric: a number, NaN where nothing was counted, or an array (a table)."""
        raise NotImplementedError(f"{type(self).__name__} has no value")

    def reduced(self, counts: Totals) -> dict[str, np.ndarray]:
        """Reduces a batch's counts on the host, for reductions that need dynamic shapes. By default keeps all."""
        return dict(counts)

    def merged(self, totals: Totals, counts: Totals) -> dict[str, np.ndarray]:
        """The totals with a batch more."""
        if self.gathers:
            return {key: np.concatenate([totals[key], counts[key]]) for key in counts}
        return {key: totals[key] + counts[key] for key in counts}

    def refuse(self, wanted: str, *tensors: Tensor) -> TypeMismatch:
        """The error for tensors that it does not take."""
        given = " and ".join(str(getattr(t, "type", type(t).__name__)) for t in tensors)
        return TypeMismatch(f"{type(self).__name__} takes {wanted}", [f"not {given}"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class Tally:
    """The totals of several metrics, and the loss of all batches as of one batch (`Outcome.shares`).

    Means of loss layers are sums divided by weights; every other loss is a mean over rows."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = {m.name: m for m in metrics}
        self.examples = 0
        self.rest, self.rows = 0.0, 0.0  # the loss outside of loss layers, times its rows
        self.sums = self.weights = np.zeros(0)  # of the loss layers' means
        self._totals: dict[str, dict[str, np.ndarray]] = {}
        self._gathered: dict[str, list[dict[str, np.ndarray]]] = {}  # concatenated on access

    def add(
        self, loss: float, examples: int, counts: Mapping[str, Mapping[str, Any]], parts: int = 1
    ) -> dict[str, float]:
        """Adds a batch. Returns its values of the metrics with `of_batch`.

        `counts`: of each metric, and of the loss (LOSS); without the latter the batch's weight is its number of examples.
        `parts`: number of parts of the batch; if there are several, counts have a first axis of parts."""
        self._add_loss(loss, examples, counts.get(LOSS))
        self.examples += examples
        own = {"loss": loss}
        for name, metric in self.metrics.items():
            found = {key: host(value, widen=not metric.gathers) for key, value in counts[name].items()}
            several = [found] if parts == 1 else [{k: v[i] for k, v in found.items()} for i in range(parts)]
            given = reduce(metric.merged, map(metric.reduced, several))
            if metric.gathers:
                self._gathered.setdefault(name, []).append(given)
            else:
                self._totals[name] = metric.merged(self._totals[name], given) if name in self._totals else given
            if metric.of_batch and np.ndim(value := metric.value(given)) == 0:
                own[name] = float(value)
        return own

    def _add_loss(self, loss: float, examples: int, shares: Mapping[str, Any] | None) -> None:
        if shares is None:
            self.rest, self.rows = self.rest + loss * examples, self.rows + examples
            return
        found = {name: host(value) for name, value in shares.items()}
        self.rest, self.rows = self.rest + float(found["rest"].sum()), self.rows + float(found["rows"].sum())
        if "sums" in found:
            several = len(found["sums"]) if found["sums"].ndim == 1 else found["sums"].shape[1]
            sums, weights = (found[name].reshape(-1, several).sum(0) for name in ("sums", "weights"))
            self.sums, self.weights = _added(self.sums, sums), _added(self.weights, weights)

    @property
    def loss(self) -> float:
        """The mean loss; NaN where nothing was counted."""
        if not self.examples or (self.weights == 0).any():
            return math.nan
        return float((self.sums / self.weights).sum()) + (self.rest / self.rows if self.rows else 0.0)

    @property
    def totals(self) -> dict[str, dict[str, np.ndarray]]:
        """The totals by metric."""
        for name, batches in self._gathered.items():
            joined = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
            self._gathered[name], self._totals[name] = [joined], joined
        return self._totals

    def values(self) -> dict[str, float]:
        """Every metric that is a number, over all that was added."""
        return self.told()[0]

    def told(self) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """The metrics that are numbers, and those that are arrays, over all that was added."""
        numbers = {"loss": self.loss}
        tables: dict[str, np.ndarray] = {}
        for name, totals in self.totals.items():
            value = self.metrics[name].value(totals)
            if np.ndim(value):
                tables[name] = np.asarray(value)
            else:
                numbers[name] = float(value)
        return numbers, tables

    def state_dict(self) -> dict[str, np.ndarray]:
        found = {f"{name}.{key}": value for name, totals in self.totals.items() for key, value in totals.items()}
        own = {"rest": np.array(self.rest), "rows": np.array(self.rows), "sums": self.sums, "weights": self.weights}
        return {"examples": np.array(self.examples), **own, **found}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        self.examples = int(state["examples"])
        if "rest" in state:
            self.rest, self.rows = float(state["rest"]), float(state["rows"])
            self.sums, self.weights = np.array(state["sums"]), np.array(state["weights"])
        else:  # of a version that weighed all batches by their rows
            self.rest, self.rows, self.sums, self.weights = (
                float(state["loss"]),
                float(self.examples),
                *np.zeros((2, 0)),
            )
        self._totals = {}
        for path, value in state.items():
            name, dot, key = path.rpartition(".")
            if dot and name in self.metrics:
                self._totals.setdefault(name, {})[key] = np.array(value)
        self._gathered = {name: [totals] for name, totals in self._totals.items() if self.metrics[name].gathers}


def host(value: Any, widen: bool = True) -> np.ndarray:
    """A result of a step as an array. widen: floats as float64, so that adding them up loses nothing."""
    array = on_host(value)
    return array.astype(np.float64) if widen and array.dtype.kind not in "iub" else array


def _added(totals: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Sums of two batches; one may have more means than the other."""
    length = max(len(totals), len(more))
    return np.pad(totals, (0, length - len(totals))) + np.pad(more, (0, length - len(more)))


def ratio(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if float(whole) else math.nan


# ---- what rules of metrics are written with ----------------------------------------------------------------------------
def count_of(x: Tensor) -> Tensor:
    """How many elements it has, also where sizes are symbols."""
    return ones_like(x, "int64").sum()


def is_float(x: Tensor) -> bool:
    return x.dtype in FLOATS


def full(x: Tensor) -> Tensor:
    """Half floats as float32, in which sums and logarithms are worth something."""
    return x.astype("float32") if x.dtype in ("float16", "bfloat16") else x


def total(x: Tensor) -> Tensor:
    """How many of its elements are true, or the sum of its elements in float64."""
    return x.astype("float64" if is_float(x) else "int64").sum()
