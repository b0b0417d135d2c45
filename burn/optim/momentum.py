"""Optimizers that follow an average of the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burn.nn.module import Module
from burn.optim.base import Groups, Optimizer, Schedule, corrected
from burn.tensors import Tensor
from burn.tensors.concatenation import where


class SGD(Optimizer):
    """p - lr * v, v = momentum * v + (1 - dampening) * (g + weight_decay * p); the first v is the gradient itself. With
    `nesterov` the step goes along g + momentum * v (Sutskever et al. 2013). As torch.optim.SGD."""

    STATE = ("velocity",)

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        groups: Groups = (),
    ) -> None:
        super().__init__(
            model, lr, groups, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov
        )

    def has_state(self, name: str, options: Mapping[str, Any]) -> bool:
        return options["momentum"] != 0.0

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        momentum, dampening = options["momentum"], options["dampening"]
        g = decayed(g, p, options)
        if not momentum:
            return p - lr * g, {}
        velocity = state["velocity"] * momentum + g * (1.0 - dampening)
        if dampening:
            velocity = where(step == 1.0, g, velocity)
        along = g + velocity * momentum if options["nesterov"] else velocity
        return p - lr * along, {"velocity": velocity}


class Lion(Optimizer):
    """p - lr * (sign(b1 * m + (1 - b1) * g) + weight_decay * p), m = b2 * m + (1 - b2) * g (arXiv:2302.06675)."""

    STATE = ("average",)

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        groups: Groups = (),
    ) -> None:
        super().__init__(model, lr, groups, betas=betas, weight_decay=weight_decay)

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        b1, b2 = options["betas"]
        average = state["average"]
        along = (average * b1 + g * (1.0 - b1)).sign()
        return p - lr * decayed(along, p, options), {"average": average * b2 + g * (1.0 - b2)}


class Adan(Optimizer):
    """Nesterov's momentum in an adaptive step (arXiv:2208.06677, algorithm 1, its betas counted as 1 - beta):
    averages of g, of its change and of (g + b2 * change)^2."""

    STATE = ("average", "change", "square", "before")

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        groups: Groups = (),
    ) -> None:
        super().__init__(model, lr, groups, betas=betas, eps=eps, weight_decay=weight_decay)

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        b1, b2, b3 = options["betas"]
        difference = where(step == 1.0, g * 0.0, g - state["before"])
        ahead = g + difference * b2
        average = state["average"] * b1 + g * (1.0 - b1)
        change = state["change"] * b2 + difference * (1.0 - b2)
        square = state["square"] * b3 + ahead * ahead * (1.0 - b3)
        along = average / corrected(b1, step, p) + change * b2 / corrected(b2, step, p)
        size = (square / corrected(b3, step, p)).sqrt() + options["eps"]
        moved = (p - lr * along / size) / (1.0 + lr * options["weight_decay"])
        return moved, {"average": average, "change": change, "square": square, "before": g}


def decayed(g: Tensor, p: Tensor, options: Mapping[str, Any]) -> Tensor:
    """The gradient with that of weight_decay / 2 * |p|^2."""
    return g + p * options["weight_decay"] if options["weight_decay"] else g
