"""Losses of distances between pairs and triples. Targets are 1 and -1."""

from __future__ import annotations

from burn import ops
from burn.nn.checks import Epsilon
from burn.nn.loss.base import Loss, Reduction
from burn.tensors import Tensor


class CosineEmbeddingLoss(Loss):
    """1 - cos(x1, x2) where the target is 1, max(0, cos - margin) where it is -1. Shapes: x1, x2 [N, d] and target [N], or
    [d] and [] -> [] or [N]."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = float(margin)

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        eps = 1e-12  # torch's
        squares = [(x * x).sum(-1) + eps for x in (x1, x2)]
        cosine = (x1 * x2).sum(-1) / (squares[0] * squares[1]).sqrt()
        loss = ops.select(target == 1, 1.0 - cosine, (cosine - self.margin).clip(0.0))
        return self._reduced(ops.select((target == 1) | (target == -1), loss, 0.0))


class HingeEmbeddingLoss(Loss):
    """x where the target is 1, max(0, margin - x) where it is -1. Shapes: x and target [...] -> [] or [...]."""

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = float(margin)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        far = (self.margin - x).clip(0.0)
        # As torch: a target that is neither counts as both.
        return self._reduced(ops.select(target == 1, 0.0, far) + ops.select(target == -1, 0.0, x))


class MarginRankingLoss(Loss):
    """max(0, margin - target (x1 - x2)). Shapes: x1, x2 and target [...] -> [] or [...]."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.margin = float(margin)

    def forward(self, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
        return self._reduced((self.margin - target * (x1 - x2)).clip(0.0))


class TripletMarginLoss(Loss):
    """max(0, margin + |anchor - positive| - |anchor - negative|), with p-norms over the last axis. With `swap` the negative's
    distance is the smaller of those to anchor and positive (Balntas et al., "Learning local feature
    descriptors with triplets", 2016).

    Shapes: anchor, positive, negative [N, d] or [d] -> [] or [N]."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: Epsilon = 1e-6,
        swap: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = float(margin), float(p), eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        near, far = self._distance(anchor, positive), self._distance(anchor, negative)
        if self.swap:
            far = ops.min(far, self._distance(positive, negative))
        return self._reduced((near - far + self.margin).clip(0.0))

    def _distance(self, a: Tensor, b: Tensor) -> Tensor:
        return (a - b + self.eps).norm(self.p, -1)
