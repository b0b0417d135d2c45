"""Losses of classes and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

from burn import ops
from burn.dialect.types import FLOATS, INTEGERS
from burn.errors import Problem, TypeMismatch
from burn.nn.checks import Probability
from burn.nn.loss.base import Loss, Reduction, Weights, buffer, same_shape
from burn.nn.loss.reductions import mean, weighted
from burn.tensors import Tensor


class _Classes(Loss):
    """Base of losses of log probabilities [N, C, d..] and classes [N, d..]."""

    def __init__(
        self, weight: Weights = None, ignore_index: int | Sequence[int] = -100, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        self.weight = buffer(weight)
        self.ignored = (ignore_index,) if isinstance(ignore_index, int) else tuple(ignore_index)

    def _check_classes(self, x: Tensor, target: Tensor) -> None:
        if target.dtype not in INTEGERS or target.ndim != max(x.ndim - 1, 0) or not x.ndim:
            raise TypeMismatch(
                f"{type(self).__name__} takes scores [N, C, d..] and classes, integers [N, d..]",
                [f"not {x.type} and {target.type}"],
            )

    def _picked(self, log_p: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
        axis = 1 if log_p.ndim > 1 else 0
        target = target.astype("int64")
        kept = [target != value for value in self.ignored]
        counts = reduce(lambda a, b: a & b, kept) if kept else target == target
        safe = ops.from_start(ops.select(counts, target, 0))
        share = counts.astype(log_p.dtype)
        if self.weight is not None:
            share = share * self.weight.take(safe)
        chosen = log_p.take_along_axis(safe.unsqueeze(axis), axis).squeeze(axis)
        # an ignored class may have probability 0, and 0 * log(0) would be NaN
        loss = ops.select(counts, -chosen, 0.0) * share
        if smoothing:
            classes = log_p.shape[axis]
            every = log_p if self.weight is None else log_p * self._along(log_p, axis)
            even = ops.select(counts, -every.sum(axis), 0.0)
            loss = loss * (1.0 - smoothing) + even * (smoothing / classes)
        return weighted(loss.sum(), share.sum()) if self.reduction == "mean" else self._reduced(loss)

    def _along(self, x: Tensor, axis: int) -> Tensor:
        assert self.weight is not None
        return self.weight.reshape(*[1] * axis, -1, *[1] * (x.ndim - axis - 1))


class NLLLoss(_Classes):
    """-weight[target] * x[target]: the negative likelihood of log probabilities. Shapes: x [N, C, d..] and target, classes
    [N, d..], or x [C] and target [] -> [] or [N, d..]. The mean is weighted. Targets equal to `ignore_index` (one, or several)
    do not count."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        self._check_classes(x, target)
        return self._picked(x, target)


class CrossEntropyLoss(_Classes):
    """`NLLLoss` of the log softmax of scores. Shapes: x [N, C, d..] and target, classes [N, d..] or probabilities [N, C, d..] ->
    [] or [N, d..]; the batch axis is optional.

    `weight`: a number for each class. `ignore_index`: a class, or several (padding tokens), that do not count.
    `label_smoothing`: the part of each target that is distributed evenly over all classes (arXiv:1512.00567)."""

    def __init__(
        self,
        weight: Weights = None,
        ignore_index: int | Sequence[int] = -100,
        reduction: Reduction = "mean",
        label_smoothing: Probability = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = float(label_smoothing)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        axis = 1 if x.ndim > 1 else 0
        log_p = x.log_softmax(axis)
        if target.dtype not in FLOATS:
            self._check_classes(x, target)
            return self._picked(log_p, target, self.label_smoothing)
        if x.dtype not in FLOATS or target.ndim == max(x.ndim - 1, 0):
            hint = "scores come first: loss(scores, classes)" if x.dtype not in FLOATS else 'target.astype("int64")'
            problem = Problem(f"not {x.type} and {target.type}", hint=hint)
            raise TypeMismatch(
                "CrossEntropyLoss takes float scores [N, C, d..] and classes, integers [N, d..]", [problem]
            )
        same_shape(self, x, target)
        if self.label_smoothing:
            target = target * (1.0 - self.label_smoothing) + self.label_smoothing / x.shape[axis]
        weighted_terms = log_p * target
        if self.weight is not None:
            weighted_terms = weighted_terms * self._along(x, axis)
        return self._reduced(-weighted_terms.sum(axis))


class BCELoss(Loss):
    """-weight (target log x + (1 - target) log(1 - x)), with logarithms at least -100 as in torch. With `logits` it takes scores,
    as `BCEWithLogitsLoss`. Shapes: x and target [...], weight broadcasts to them -> [] or [...]."""

    def __init__(self, weight: Weights = None, reduction: Reduction = "mean", logits: bool = False) -> None:
        super().__init__(reduction)
        self.weight, self.logits = buffer(weight), logits

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        if self.logits:
            loss = _binary(x, target, None)
        else:
            loss = ops.binary_cross_entropy(x, target.astype(x.dtype))
        return self._reduced(loss if self.weight is None else loss * self.weight)


class BCEWithLogitsLoss(Loss):
    """The binary cross entropy of sigmoid(x), without overflow; pos_weight multiplies the part of positive targets.
    Shapes: x and target [...], weight and pos_weight broadcast to them -> [] or [...]."""

    def __init__(self, weight: Weights = None, reduction: Reduction = "mean", pos_weight: Weights = None) -> None:
        super().__init__(reduction)
        self.weight, self.pos_weight = buffer(weight), buffer(pos_weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        loss = _binary(x, target, self.pos_weight)
        return self._reduced(loss if self.weight is None else loss * self.weight)


def _binary(x: Tensor, target: Tensor, positive: Tensor | None) -> Tensor:
    share = 1.0 if positive is None else (positive - 1.0) * target + 1.0
    return (1.0 - target) * x + share * (-x).softplus()


class KLDivLoss(Loss):
    """target (log target - x), with log probabilities x; with `log_target`, target also holds log probabilities. "batchmean"
    divides the sum by the first axis, as in the divergence's definition. Shapes: x and target [...] -> [] or [...]."""

    def __init__(
        self, reduction: Literal["none", "mean", "sum", "batchmean"] = "mean", log_target: bool = False
    ) -> None:
        super().__init__("sum" if reduction == "batchmean" else reduction)
        self.by_batch, self.log_target = reduction == "batchmean", log_target

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        if self.log_target:
            loss = target.exp() * (target - x)
        else:
            safe = ops.select(target > 0.0, target, 1.0)  # 0 log 0 is 0
            loss = ops.select(target > 0.0, target * safe.log(), 0.0) - target * x
        if not self.by_batch:
            return self._reduced(loss)
        return mean(loss.reshape(x.shape[0], -1).sum(1)) if x.ndim else loss.sum()


class MultiMarginLoss(Loss):
    """The sum over other classes of max(0, margin - x[target] + x[class])^p, divided by the number of classes and times
    weight[target]. Shapes: x [N, C] and target, classes [N], or [C] and [] -> [] or [N]."""

    def __init__(
        self, p: Literal[1, 2] = 1, margin: float = 1.0, weight: Weights = None, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        self.p, self.margin, self.weight = p, float(margin), buffer(weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        if x.ndim not in (1, 2) or target.ndim != x.ndim - 1 or target.dtype not in INTEGERS:
            raise TypeMismatch(
                "MultiMarginLoss takes scores [N, C] and classes [N]", [f"not {x.type} and {target.type}"]
            )
        target = ops.from_start(target).unsqueeze(-1)
        right = x.take_along_axis(target, -1)
        short = ops.relu(x - right + self.margin)
        short = short if self.p == 1 else short * short
        if self.weight is not None:
            short = short * self.weight.take(target)
        index = ops.iota(shape=(x.shape[-1],), axis=0)
        return self._reduced(ops.select(index == target, 0.0, short).sum(-1) / x.shape[-1])


class SoftMarginLoss(Loss):
    """log(1 + exp(-target x)), targets 1 and -1. Shapes: x and target [...] -> [] or [...]."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        return self._reduced((-(target * x)).softplus())
