"""Losses between numbers: differences to a power, and the likelihood of a distribution."""

from __future__ import annotations

import math
from typing import Annotated

from burn import ops
from burn.nn.checks import Epsilon, Range
from burn.nn.loss.base import Loss, Reduction, same_shape
from burn.tensors import Tensor

Positive = Annotated[float, Range(0, open=True)]


class MSELoss(Loss):
    """(x - target)^2. Shapes: x and target [...] -> [] or [...]."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        return self._reduced((x - target).square())


class L1Loss(Loss):
    """|x - target|. Shapes: x and target [...] -> [] or [...]."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        return self._reduced(abs(x - target))


class LpLoss(Loss):
    """|x - target|^p. Shapes: x and target [...] -> [] or [...]."""

    def __init__(self, p: Positive, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.p = float(p)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        difference = abs(x - target)
        powers = {1.0: lambda d: d, 2.0: lambda d: d * d}
        return self._reduced(powers.get(self.p, lambda d: d**self.p)(difference))


class HuberLoss(Loss):
    """d^2 / 2 where d = |x - target| < delta, delta (d - delta / 2) beyond (Huber, "Robust estimation of a location
    parameter", 1964). Shapes: x and target [...] -> [] or [...]."""

    def __init__(self, delta: Positive = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.delta = float(delta)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        gap = x - target
        d = abs(gap)  # which has a kink at 0, where the square has none
        near = ops.select(d < self.delta, gap, 0.0)  # the square's derivative is not to be 0 times infinity
        return self._reduced(ops.select(d < self.delta, near * near * 0.5, (d - 0.5 * self.delta) * self.delta))


class SmoothL1Loss(Loss):
    """d^2 / (2 beta) where d = |x - target| < beta, d - beta / 2 beyond (arXiv:1504.08083). Shapes: x and target [...] -> []
    or [...]."""

    def __init__(self, beta: Epsilon = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.beta = float(beta)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        gap = x - target
        d = abs(gap)
        if self.beta:
            near = ops.select(d < self.beta, gap, 0.0)
            d = ops.select(d < self.beta, near * near * (0.5 / self.beta), d - 0.5 * self.beta)
        return self._reduced(d)


class GaussianNLLLoss(Loss):
    """(log v + (x - target)^2 / v) / 2, v the variance held above `eps`; `full` adds log(2 pi) / 2 (Nix and Weigend, "Estimating
    the mean and variance of the target probability distribution", 1994).

    Shapes: x and target [...], variance the same, with a last axis of 1, or without the last axis -> [] or [...]."""

    def __init__(self, full: bool = False, eps: Epsilon = 1e-6, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, x: Tensor, target: Tensor, variance: Tensor) -> Tensor:
        if variance.ndim == x.ndim - 1:
            variance = variance.unsqueeze(-1)
        # As in torch, a variance below eps counts as eps, but its derivative is passed on.
        at_eps = variance - ops.stop_gradient(variance) + float(self.eps)
        variance = ops.select(variance < float(self.eps), at_eps, variance)
        loss = (variance.log() + (x - target).square() / variance) * 0.5
        return self._reduced(loss + 0.5 * math.log(2 * math.pi) if self.full else loss)


class PoissonNLLLoss(Loss):
    """exp(x) - target x, or x - target log(x + eps) without `log_input`; `full` adds Stirling's approximation of log(target!).
    Shapes: x and target [...] -> [] or [...]."""

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: Epsilon = 1e-8, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        same_shape(self, x, target)
        loss = x.exp() - target * x if self.log_input else x - target * (x + self.eps).log()
        if self.full:
            large = ops.max(target, 1.0)  # where it is not used its logarithm is not to be infinite
            stirling = large * large.log() - large + (large * (2 * math.pi)).log() * 0.5
            loss = loss + ops.select(target > 1.0, stirling, 0.0)
        return self._reduced(loss)
