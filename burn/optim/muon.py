"""Muon: steps whose matrices have singular values near one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from burn.errors import Problem, TypeMismatch
from burn.nn.module import Module
from burn.optim.base import Groups, Optimizer, Schedule
from burn.tensors import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that takes singular values in (0, 1] near 1 in five rounds (K. Jordan et al., Muon, 2024)."""


ADJUST: Mapping[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: max(1.0, rows / columns) ** 0.5,
    "match_rms_adamw": lambda rows, columns: 0.2 * max(rows, columns) ** 0.5,
}
"""Factors of the learning rate, by the shape of the matrix."""


class Muon(Optimizer):
    """p * (1 - lr * weight_decay) - lr * scale * m, where m is an average of the gradients, made orthogonal by `rounds` of Newton
    and Schulz's iteration. For matrices; give embeddings, heads, biases and norms to another optimizer (`optim.Combined`).
    `adjust`: scale is sqrt(max(1, rows / columns)) for "original", 0.2 sqrt(max(rows, columns)) for "match_rms_adamw", whose
    steps have the size of AdamW's (arXiv:2502.16982). As torch.optim.Muon, which iterates in bfloat16."""

    STATE = ("average",)
    SIGNED = ("coefficients",)

    def __init__(
        self,
        model: Module,
        lr: float | Schedule = 1e-3,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.1,
        rounds: int = 5,
        eps: float = 1e-7,
        coefficients: tuple[float, float, float] = COEFFICIENTS,
        adjust: Literal["original", "match_rms_adamw"] = "original",
        groups: Groups = (),
    ) -> None:
        numbers = {"momentum": momentum, "weight_decay": weight_decay, "rounds": rounds, "eps": eps}
        super().__init__(model, lr, groups, **numbers, nesterov=nesterov, coefficients=coefficients, adjust=adjust)

    def check(self) -> None:
        wrong = [Problem(f"'{path}' is {p.type}") for path, p in self.parameters.items() if p.ndim != 2]
        if wrong:
            raise TypeMismatch("Muon moves matrices: give the others to another optimizer (optim.Combined)", wrong)
        for group in self.groups:
            if (adjust := group.options["adjust"]) not in ADJUST:
                raise TypeMismatch("Muon does not take these options", [f"adjust is {adjust!r}; {', '.join(ADJUST)}"])

    def move(
        self, p: Tensor, g: Tensor, state: Mapping[str, Tensor], lr: Tensor, step: Tensor, options: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        momentum = options["momentum"]
        average = state["average"] * momentum + g * (1.0 - momentum)
        along = g * (1.0 - momentum) + average * momentum if options["nesterov"] else average
        share = ADJUST[options["adjust"]](*p.shape)
        step_ = orthogonal(along, options["rounds"], options["eps"], options["coefficients"])
        return p * (1.0 - lr * options["weight_decay"]) - lr * (step_ * share), {"average": average}


def orthogonal(x: Tensor, rounds: int, eps: float, coefficients: tuple[float, float, float] = COEFFICIENTS) -> Tensor:
    """About the orthogonal matrix nearest to x [m, n]: its singular values brought near 1."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x * x).sum().sqrt().maximum(eps)
    for _ in range(rounds):
        square = x @ x.T
        x = x * a + (square * b + square @ square * c) @ x
    return x.T if tall else x
