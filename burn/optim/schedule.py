"""Learning rate schedules. A schedule is a function of the number of steps so far (a float64 scalar
tensor, or a number), so it is part of the compiled step. The exception is `Plateau`, which depends on a metric.

    lr = burn.optim.sequence([burn.optim.linear(0.0, 1e-3, 100), burn.optim.cosine(1e-3, 1000)], [100])
    lr(50)                                      # a tensor: 0.0005
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from burn.errors import TypeMismatch
from burn.optim.base import Optimizer
from burn.tensors import Tensor
from burn.tensors import constant as tensor
from burn.tensors.concatenation import where

Schedule: TypeAlias = Callable[[Any], Tensor]


def _steps(step: Any) -> Tensor:
    return tensor(step).astype("float64")


def _check(**numbers: float) -> None:
    wrong = [f"{name} is {value}" for name, value in numbers.items() if not value > 0]
    if wrong:
        raise TypeMismatch("a schedule's lengths and factors are more than 0", wrong)


def constant(lr: float) -> Schedule:
    """The same rate at every step."""
    return lambda step: _steps(step) * 0.0 + lr


def linear(first: float, last: float, steps: int) -> Schedule:
    """From one rate to another in so many steps, and then that."""
    _check(steps=steps)
    return lambda step: first + (last - first) * (_steps(step) / steps).minimum(1.0)


def cosine(lr: float, total: int, last: float = 0.0, warmup: int = 0) -> Schedule:
    """Down to `last` along half a cosine (arXiv:1608.03983), which ends at step `total`; before, up from 0 in `warmup` steps."""
    _check(total=total - warmup)

    def schedule(step: Any) -> Tensor:
        done = ((_steps(step) - warmup) / (total - warmup)).clip(0.0, 1.0)
        down = last + (lr - last) * 0.5 * (1.0 + (done * math.pi).cos())
        return down if not warmup else where(_steps(step) < warmup, lr * _steps(step) / warmup, down)

    return schedule


def exponential(lr: float, gamma: float) -> Schedule:
    """lr * gamma^step."""
    _check(gamma=gamma)
    return lambda step: lr * tensor(gamma, "float64") ** _steps(step)


def step(lr: float, every: int, gamma: float = 0.1) -> Schedule:
    """Times gamma after every so many steps."""
    _check(every=every, gamma=gamma)
    return lambda step: lr * tensor(gamma, "float64") ** (_steps(step) / every).floor()


def noam(factor: float, dim: int, warmup: int) -> Schedule:
    """factor * dim^-0.5 * min(step^-0.5, step * warmup^-1.5), counted from 1 (arXiv:1706.03762, section 5.3)."""
    _check(dim=dim, warmup=warmup)

    def schedule(step: Any) -> Tensor:
        n = _steps(step) + 1.0
        return factor * dim**-0.5 * n.rsqrt().minimum(n * warmup**-1.5)

    return schedule


def one_cycle(lr: float, total: int, rising: float = 0.3, start: float = 25.0, end: float = 1e4) -> Schedule:
    """Up from lr / start to lr, then down to lr / start / end, both along half a cosine (arXiv:1708.07120). As
    torch.optim.lr_scheduler.OneCycleLR."""
    _check(total=total, start=start, end=end)
    top = rising * total - 1

    def schedule(step: Any) -> Tensor:
        n = _steps(step)
        up, down = n / top, (n - top) / (total - 1 - top)
        first, last = lr / start, lr / start / end
        return where(n <= top, _half_cosine(first, lr, up), _half_cosine(lr, last, down.minimum(1.0)))

    return schedule


def _half_cosine(first: float, last: float, done: Tensor) -> Tensor:
    return last + (first - last) / 2.0 * (1.0 + (done * math.pi).cos())


def sequence(schedules: Sequence[Schedule], milestones: Sequence[int]) -> Schedule:
    """One schedule after another, each counting from the milestone at which it begins."""
    if len(milestones) != len(schedules) - 1 or list(milestones) != sorted(milestones):
        raise TypeMismatch("a sequence of schedules has a milestone between each two", [f"{list(milestones)}"])

    def schedule(step: Any) -> Tensor:
        n = _steps(step)
        result = schedules[0](n)
        for at, each in zip(milestones, schedules[1:], strict=True):
            result = where(n < at, result, each((n - at).maximum(0.0)))
        return result

    return schedule


def product(*schedules: Schedule) -> Schedule:
    """Several schedules multiplied."""

    def schedule(step: Any) -> Tensor:
        result = schedules[0](step)
        for each in schedules[1:]:
            result = result * each(step)
        return result

    return schedule


class Plateau:
    """Times `factor` when a metric has not become better for more than `patience` calls of `see`. mode: "min" or "max"; what
    is better by less than `threshold`, relatively, does not count. As torch.optim.lr_scheduler.ReduceLROnPlateau."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        mode: str = "min",
        least: float = 0.0,
    ) -> None:
        if mode not in ("min", "max") or not 0 < factor < 1:
            raise TypeMismatch("a plateau's mode is min or max, its factor between 0 and 1", [f"{mode}, {factor}"])
        self.optimizer, self.factor, self.patience = optimizer, factor, patience
        self.threshold, self.mode, self.least = threshold, mode, least
        self.best = math.inf if mode == "min" else -math.inf
        self.waited = 0

    def see(self, metric: float) -> None:
        better = (
            metric < self.best * (1 - self.threshold)
            if self.mode == "min"
            else metric > self.best * (1 + self.threshold)
        )
        if math.isinf(self.best):
            better = True
        self.best, self.waited = (float(metric), 0) if better else (self.best, self.waited + 1)
        if self.waited > self.patience:
            self.waited = 0
            self.optimizer.lr = max(self.optimizer.lr * self.factor, self.least)

    def state_dict(self) -> dict[str, float]:
        """The best value and the patience so far; the learning rate is part of the optimizer's state."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Takes what `state_dict` gave."""
        self.best, self.waited = float(state["best"]), int(state["waited"])
