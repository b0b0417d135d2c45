"""An optimizer of one's own: AdaBelief (arXiv:2010.07468), which trusts a gradient that is as it was expected to be.

python examples/training/own_optimizer.py            # some seconds, beside SGD

Its state's names and one method are all there is to write: groups, schedules, saving and the compiled step come with the base
class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import burn
from burn import nn, optim


class AdaBelief(optim.Optimizer):
    STATE = ("average", "surprise")

    def __init__(
        self, model: nn.Module, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-12
    ) -> None:
        super().__init__(model, lr, betas=betas, eps=eps)

    def move(
        self,
        p: burn.Tensor,
        g: burn.Tensor,
        state: Mapping[str, burn.Tensor],
        lr: burn.Tensor,
        step: burn.Tensor,
        options: Mapping[str, Any],
    ) -> tuple[burn.Tensor, dict[str, burn.Tensor]]:
        """The new parameter and its new state. step counts from 1."""
        b1, b2 = options["betas"]
        average = state["average"] * b1 + g * (1 - b1)
        surprise = state["surprise"] * b2 + (g - average) ** 2 * (1 - b2) + options["eps"]
        full1, full2 = ((1 - b**step).astype(p.dtype) for b in (b1, b2))  # both begin at 0
        return p - lr * (average / full1) / ((surprise / full2).sqrt() + options["eps"]), {
            "average": average,
            "surprise": surprise,
        }


def valley(model: Point) -> burn.Tensor:
    """Rosenbrock's function: a bent valley, flat along its bottom; the minimum is at (1, 1)."""
    x, y = model.position[0], model.position[1]
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


class Point(nn.Module):
    def __init__(self) -> None:
        self.position = nn.Parameter(np.array([-1.2, 1.0], np.float32))

    def forward(self) -> burn.Tensor:
        return self.position


def main(steps: int = 4000, device: str = "cpu") -> dict[str, float]:
    """Goes down the valley with both; returns how high each ends."""
    heights = {}
    for name, make in {"AdaBelief": lambda m: AdaBelief(m, lr=0.01), "SGD": lambda m: optim.SGD(m, lr=1e-3)}.items():
        model = Point()
        step = burn.train.step(model, valley, make(model), device=device)
        seen = [float(step()) for _ in range(steps)]
        shown = "  ".join(f"{height:.2e}" for height in seen[:: max(1, steps // 5)])
        print(f"{name:<10} {shown}  {seen[-1]:.2e}")
        heights[name] = seen[-1]
    return heights


if __name__ == "__main__":
    main()
