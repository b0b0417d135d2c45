"""Optimizers that divide by the size that gradients had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burn.nn.module import Module
from burn.optim.base import Groups, Optimizer, Schedule
from burn.optim.momentum import decayed
from burn.tensors import Tensor


class AdaGrad(Optimizer):
    """p - lr' * g / (sqrt(s) + eps), s the sum of all squares so far, lr' = lr / (1 + (step - 1) * lr_decay)
    (Duchi et al. 2011). As torch.optim.Adagrad."""

    STATE = ("square",)

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        eps: float = 1e-10,
        groups: Groups = (),
    ) -> None:
        super().__init__(model, lr, groups, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = decayed(g, p, options)
        if options["lr_decay"]:
            lr = (lr / ((step - 1.0) * options["lr_decay"] + 1.0)).astype(p.dtype)
        square = state["square"] + g * g
        return p - lr * (g / (square.sqrt() + options["eps"])), {"square": square}


class RMSProp(Optimizer):
    """p - lr * g / (sqrt(s) + eps), s = alpha * s + (1 - alpha) * g^2 (Tieleman and Hinton 2012); with `centered` less the
    square of the average, with `momentum` along an average of the steps. As torch.optim.RMSprop."""

    STATE = ("square", "average", "velocity")

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        groups: Groups = (),
    ) -> None:
        super().__init__(
            model, lr, groups, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered
        )

    def has_state(self, name: str, options: Mapping[str, Any]) -> bool:
        return {"square": True, "average": options["centered"], "velocity": options["momentum"] != 0.0}[name]

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        alpha = options["alpha"]
        g = decayed(g, p, options)
        square = size = state["square"] * alpha + g * g * (1.0 - alpha)
        new = {"square": square}
        if options["centered"]:
            average = new["average"] = state["average"] * alpha + g * (1.0 - alpha)
            size = square - average * average
        along = g / (size.sqrt() + options["eps"])
        if options["momentum"]:
            along = new["velocity"] = state["velocity"] * options["momentum"] + along
        return p - lr * along, new
