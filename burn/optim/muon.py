"""Muon: steps whose matrices have singular values near one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burn.errors import Problem, TypeMismatch
from burn.nn.module import Module
from burn.optim.base import Groups, Optimizer, Schedule
from burn.tensors import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that takes singular values in (0, 1] near 1 in five rounds (K. Jordan et al., Muon, 2024)."""


class Muon(Optimizer):
    """p * (1 - lr * weight_decay) - lr * sqrt(max(1, rows / columns)) * m, where m is an average of the gradients, made
    orthogonal by `rounds` of Newton and Schulz's iteration. For matrices; give embeddings, heads, biases and norms to another
    optimizer (freeze them for this one). As torch.optim.Muon, which iterates in bfloat16."""

    STATE = ("average",)

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-3,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.1,
        rounds: int = 5,
        eps: float = 1e-7,
        groups: Groups = (),
    ) -> None:
        super().__init__(
            model, lr, groups, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, rounds=rounds, eps=eps
        )

    def check(self) -> None:
        wrong = [Problem(f"'{path}' is {p.type}") for path, p in self.parameters.items() if p.ndim != 2]
        if wrong:
            raise TypeMismatch("Muon moves matrices: freeze the others, and give them to another optimizer", wrong)

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        momentum = options["momentum"]
        average = state["average"] * momentum + g * (1.0 - momentum)
        along = g * (1.0 - momentum) + average * momentum if options["nesterov"] else average
        rows, columns = p.shape
        share = max(1.0, rows / columns) ** 0.5
        step_ = orthogonal(along, options["rounds"], options["eps"])
        return p * (1.0 - lr * options["weight_decay"]) - lr * (step_ * share), {"average": average}


def orthogonal(x: Tensor, rounds: int, eps: float) -> Tensor:
    """About the orthogonal matrix nearest to x [m, n]: its singular values brought near 1."""
    a, b, c = COEFFICIENTS
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x * x).sum().sqrt().maximum(eps)
    for _ in range(rounds):
        square = x @ x.T
        x = x * a + (square * b + square @ square * c) @ x
    return x.T if tall else x
