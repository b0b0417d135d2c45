"""`Tensor.detach` in an imported module: a constant for what differentiates it."""

from __future__ import annotations

import torch

import burn


class Squared(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.weight * x
        return y * y.detach()


def test_nothing_flows_through_a_detached_tensor() -> None:
    model = burn.compile(Squared(), (torch.ones(2),), train=True)
    (slope,) = burn.grad(lambda m, x: m(x).sum())(model, burn.ones(2)).values()
    assert slope.tolist() == [2, 3]
