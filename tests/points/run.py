"""Values, first and second derivatives of the table's functions, and how they differ from PyTorch's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import burn
from tests.points.functions import POINTS, ROWS, Function

PARTS = ("value", "first", "second")
NEAR = 1e-9
Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def weights(count: int) -> np.ndarray:
    """All different, so that swapped elements change the result: for the cotangent of each element of a row."""
    return 1.0 + 0.25 * np.arange(count)


def in_burn(function: Callable[[Any], Any], x: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor, burn.Tensor]:
    def value(x: burn.Tensor) -> burn.Tensor:
        return function(x).reshape(x.shape[0], -1)

    def scalar(x: burn.Tensor) -> burn.Tensor:
        y = value(x)
        return (y * burn.constant(weights(y.shape[1]))).sum()

    def first(x: burn.Tensor) -> burn.Tensor:
        return burn.grad(scalar)(x)

    return value(x), first(x), burn.grad(lambda v: (first(v) * burn.constant(weights(3))).sum())(x)


def in_torch(function: Callable[[Any], Any], second_refused: str = "") -> Triple:
    """second_refused: PyTorch's message if it has no second derivative, which then is ()."""
    x = torch.tensor(ROWS, requires_grad=True)
    y = function(x).reshape(len(ROWS), -1)
    zeros = torch.zeros_like(x)
    if not y.requires_grad:
        return y.numpy(), zeros.numpy(), zeros.numpy()
    scalar = (y * torch.tensor(weights(y.shape[1]))).sum()
    every: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    (first,) = torch.autograd.grad(scalar, x, create_graph=True, **every)
    second = zeros
    if second_refused:
        with pytest.raises((RuntimeError, NotImplementedError), match=re.escape(second_refused)):
            torch.autograd.grad((first * torch.tensor(weights(3))).sum(), x)
        second = torch.zeros(0, 3)
    elif first.requires_grad:
        (second,) = torch.autograd.grad((first * torch.tensor(weights(3))).sum(), x, **every)
    return tuple(v.detach().numpy(force=True) for v in (y, first, second))  # type: ignore[return-value]


def differing(ours: Triple, theirs: Triple, near: float = NEAR) -> Iterator[tuple[str, str, str]]:
    """(point, part, the numbers) where they differ by more than `near`, relative or absolute."""
    for part, a, b in zip(PARTS, ours, theirs, strict=True):
        if not len(b):
            continue
        with np.errstate(all="ignore"):
            close = np.abs(a - b) <= near * np.maximum(1.0, np.abs(b))
        same = (close | (a == b) | (np.isnan(a) & np.isnan(b))).all(-1)
        for index in np.flatnonzero(~same):
            yield list(POINTS)[index], part, f"burn {a[index].tolist()}, PyTorch {b[index].tolist()}"


def native(function: Function, jit: bool) -> Triple:
    def all_of(x: burn.Tensor) -> Any:
        return in_burn(function.burn, x)

    results = (burn.jit(all_of) if jit else all_of)(burn.constant(ROWS))
    return tuple(r.numpy() for r in results)  # type: ignore[return-value]


class _Module(torch.nn.Module):
    """A function of a parameter, so that the import has something to differentiate by."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor(ROWS))
        self.function = function

    def forward(self, one: torch.Tensor) -> torch.Tensor:
        y = self.function(self.x * one)
        return y.reshape(y.shape[0], -1)


def imported(function: Function) -> Triple:
    """The same of a module of PyTorch's that burn has imported."""
    one = torch.ones(1, dtype=torch.float64)
    return of_model(burn.compile(_Module(function.torch), (one,), train=True))


def of_model(model: Any) -> Triple:
    """The same of a model whose one parameter holds the points, and which takes a 1 that they are multiplied by."""
    ones = burn.constant(np.ones(1))

    def value(model: Any) -> burn.Tensor:
        return model(ones).reshape(len(ROWS), -1)

    def scalar(model: Any) -> burn.Tensor:
        y = value(model)
        return (y * burn.constant(weights(y.shape[1]))).sum()

    def slope(model: Any) -> burn.Tensor:
        return (next(iter(burn.grad(scalar)(model).values())) * burn.constant(weights(3))).sum()

    def all_of(model: Any) -> Any:
        first, second = (next(iter(burn.grad(f)(model).values())) for f in (scalar, slope))
        return value(model), first, second

    return tuple(np.asarray(r) for r in burn.jit(all_of)(model))  # type: ignore[return-value]
