"""`torch.compile(backend="burn")` with arguments, parameters and buffers of plain subclasses of `torch.Tensor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch


class Labelled(torch.Tensor):
    """As torchvision's images: no methods of its own."""


class Weight(torch.nn.Parameter):
    pass


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Weight(torch.randn(4, 2))
        self.register_buffer("shift", torch.randn(2).as_subclass(Labelled))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight + self.shift)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _plain(x: torch.Tensor) -> torch.Tensor:
    return x.as_subclass(torch.Tensor)


X = torch.randn(3, 4)
CASES: dict[str, tuple[Callable[..., Any], Callable[[], torch.Tensor]]] = {
    "pointwise": (lambda x: torch.sin(x) * 2, lambda: X.as_subclass(Labelled)),
    "slice and sum": (lambda x: x[:, :2].sum(), lambda: X.as_subclass(Labelled)),
    "in place": (lambda x: x.mul_(2), lambda: X.clone().as_subclass(Labelled)),
    "layer": (torch.nn.Linear(4, 2), lambda: X.as_subclass(Labelled)),
    "module": (Module(), lambda: X),
    "result": (lambda x: (x * 2).as_subclass(Labelled), lambda: X),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_their_classes_are_those_of_eager_mode(name: str) -> None:
    function, argument = CASES[name]
    compiled = torch.compile(function, backend="burn")
    for _ in range(2):  # the first call runs under torch's checks
        given, same = argument(), argument()
        want, got = function(given), compiled(same)
        assert type(got) is type(want)
        torch.testing.assert_close(_plain(got), _plain(want))
        torch.testing.assert_close(_plain(same), _plain(given))


def test_gradients_reach_an_argument_of_a_subclass() -> None:
    x = X.as_subclass(Labelled).requires_grad_()
    torch.compile(lambda x: (x.sin() * x).sum(), backend="burn")(x).backward()
    assert x.grad is not None
    torch.testing.assert_close(_plain(x.grad), X.cos() * X + X.sin())
