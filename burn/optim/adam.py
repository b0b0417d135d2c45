"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burn.nn.module import Module
from burn.optim.base import Groups, Optimizer, Schedule, corrected
from burn.optim.momentum import decayed
from burn.tensors import Tensor


class Adam(Optimizer):
    """p - lr * m' / (sqrt(v') + eps): averages m of the gradient and v of its square, corrected for having begun at zero
    (arXiv:1412.6980). weight_decay adds to the gradient. With `amsgrad` v' is the largest so far (arXiv:1904.09237). As
    torch.optim.Adam."""

    STATE = ("average", "square", "largest")

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        groups: Groups = (),
    ) -> None:
        super().__init__(model, lr, groups, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad)

    def has_state(self, name: str, options: Mapping[str, Any]) -> bool:
        return name != "largest" or options["amsgrad"]

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return self._moved(p, decayed(g, p, options), state, lr, step, options)

    def _moved(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        b1, b2 = options["betas"]
        average = state["average"] * b1 + g * (1.0 - b1)
        square = state["square"] * b2 + g * g * (1.0 - b2)
        new = {"average": average, "square": square}
        if options["amsgrad"]:
            square = new["largest"] = state["largest"].maximum(square)
        size = square.sqrt() / corrected(b2, step, p).sqrt() + options["eps"]
        return p - lr / corrected(b1, step, p) * (average / size), new


class AdamW(Adam):
    """Adam whose weight_decay shrinks the parameters by lr * weight_decay, beside the gradient (arXiv:1711.05101). `cautious`
    shrinks only those that the step shrinks, too (arXiv:2510.12402). As torch.optim.AdamW."""

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        cautious: bool = False,
        groups: Groups = (),
    ) -> None:
        Optimizer.__init__(
            self, model, lr, groups, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, cautious=cautious
        )

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        share = lr * options["weight_decay"]
        if not options["cautious"]:
            return self._moved(p * (1.0 - share), g, state, lr, step, options)
        moved, new = self._moved(p, g, state, lr, step, options)
        shrinks = ((p - moved) * p > 0).astype(p.dtype)
        return moved - p * share * shrinks, new
