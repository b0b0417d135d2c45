"""Results of a loss function: the loss, and the prediction and target for metrics."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from burn.errors import Problem, TypeMismatch
from burn.nn.loss.reductions import Mean, collecting
from burn.nn.module import Module
from burn.tensors import Tensor, constant, trees
from burn.tensors.concatenation import stack, where
from burn.tensors.gradients import slopes
from burn.tensors.promotion import lift
from burn.tracing.arguments import bound
from burn.train.metrics import Metric


class Outcome(NamedTuple):
    """The results of a batch. prediction, target: None if the loss function returns only the loss."""

    loss: Any
    prediction: Any = None
    target: Any = None
    means: Sequence[Mean] = ()
    """Those of the loss layers that the loss was computed from."""

    @staticmethod
    def of(result: Any, whose: str) -> Outcome:
        """The outcome that a function returned: a loss, or (loss, prediction, target). Raises TypeMismatch."""
        if isinstance(result, Outcome):
            return result
        if isinstance(result, tuple) and len(result) == 3:
            return Outcome(*result)
        if isinstance(result, tuple):
            raise TypeMismatch(
                f"{whose} returns a loss, or (loss, prediction, target)", [f"not a tuple of {len(result)}"]
            )
        return Outcome(result)

    def counts(self, metrics: Sequence[Metric]) -> dict[str, dict[str, Tensor]]:
        """The batch's counts for the metrics. Raises TypeMismatch if they need a prediction and target that are missing."""
        if metrics and self.prediction is None:
            names = ", ".join(type(m).__name__ for m in metrics)
            hint = "return (loss, prediction, target)"
            raise TypeMismatch(
                f"{names} needs predictions", [Problem("the loss function gives the loss alone", hint=hint)]
            )
        return {m.name: m.counts(self.prediction, self.target) for m in metrics}

    def shares(self, batch: Any) -> dict[str, Tensor]:
        """The batch's contributions to the loss of an epoch (`Tally`), in float64, in a traced function.

        For each mean of a loss layer: its weight, and its sum times the derivative of the loss with respect to the mean. For the
        rest of the loss: its value times the batch's rows, and the rows. So the loss of an epoch equals that of all its rows in
        one batch, if it is linear in its means."""
        rows = lift(_rows(batch), "float64")
        loss = self.loss.astype("float64")
        if not self.means:
            return {"rest": loss * rows, "rows": rows}
        if len(self.means) == 1 and self.means[0].value.value == self.loss.value:
            parts, rest = [constant(1.0, "float64")], constant(0.0, "float64")
        else:
            parts = [slope.astype("float64") for slope in slopes(self.loss, [m.value for m in self.means])]
            pairs = zip(parts, self.means, strict=True)
            rest = loss - sum((slope * m.value.astype("float64") for slope, m in pairs), constant(0.0, "float64"))
        weights = stack([m.weight.astype("float64") for m in self.means])
        sums = stack([p * m.total.astype("float64") for p, m in zip(parts, self.means, strict=True)])
        values = stack([m.value.astype("float64") for m in self.means])
        counted = ((weights != 0.0) | ~values.isnan()).all()  # a mean with weight 0 is NaN, which makes the loss NaN
        return {
            "sums": sums,
            "weights": weights,
            "rest": where(counted, rest * rows, 0.0),
            "rows": where(counted, rows, 0.0),
        }


def _rows(batch: Any) -> Any:
    """The size of the first axis of a batch's first tensor; 1 where there are no axes."""
    return next((leaf.shape[0] for leaf in trees.flatten(batch)[0] if leaf.ndim), 1)


class Objective:
    """A loss function as a `Learner` takes it, of the model and a batch.

    A loss layer, such as nn.CrossEntropyLoss(), is given the model's output and the last entry of the batch; the others are
    the model's inputs. Another function is called as loss(model, *batch), or loss(model, **batch) where they are dictionaries."""

    def __init__(self, loss: Any) -> None:
        if not callable(loss) or isinstance(loss, type):
            hint = f"write {loss.__name__}(), an instance" if isinstance(loss, type) else ""
            raise TypeMismatch(
                "a loss is a layer or a function of model and batch", [Problem(f"not {loss!r}", hint=hint)]
            )
        self.loss = loss
        self.name = type(loss).__name__ if isinstance(loss, Module) else getattr(loss, "__name__", "loss")
        if isinstance(loss, Module):
            parameters = [inspect.Parameter("batch", inspect.Parameter.VAR_POSITIONAL)]
        else:
            parameters = list(inspect.signature(loss).parameters.values())[1:]
        self.signature = inspect.Signature(parameters)
        """Of a batch."""

    def __call__(self, model: Module, *args: Any, **kwargs: Any) -> Outcome:
        return self.outcome(model, args, kwargs)

    def outcome(self, model: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], zero: bool = False) -> Outcome:
        """The results of a batch. zero: a loss layer's mean over no targets is 0 instead of NaN."""
        with collecting(zero) as means:
            if not isinstance(self.loss, Module):
                outcome = Outcome.of(self.loss(model, *args, **kwargs), f"the loss function {self.name}")
            else:
                prediction, target = model(*args[:-1]), args[-1]
                outcome = Outcome(self.loss(prediction, target), prediction, target)
        return outcome._replace(means=tuple(means.found))

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A batch by the names of the function's arguments. Raises TypeMismatch where it takes no such batch."""
        if isinstance(self.loss, Module) and (len(args) < 2 or kwargs):
            given = f"not {', '.join(kwargs)}" if kwargs else f"not of {len(args)}"
            raise TypeMismatch(f"{self.name} takes batches of inputs and, last, a target", [given])
        try:
            return bound(self.signature, args, kwargs)
        except TypeMismatch as error:
            given = f"{len(args)} entries" if not kwargs else ", ".join(kwargs)
            hint = (
                "a loss function is called with the model and the batch, a layer such as nn.MSELoss() without the model"
            )
            names = ", ".join(["model", *self.signature.parameters])
            problem = Problem(f"{error.problems[0].message}; the batch has {given}", hint=hint)
            raise TypeMismatch(f"{self.name}({names}) does not take this batch", [problem]) from None
