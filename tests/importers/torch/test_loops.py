"""torch's loops over slices: scan, map and associative_scan, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as over_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import burn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Recurrent(torch.nn.Module):
    """A scan along an axis, whose body reads a parameter and returns slices of two shapes."""

    def __init__(self, dim: int, reverse: bool) -> None:
        super().__init__()
        self.dim, self.reverse = dim, reverse
        self.weight = torch.nn.Parameter(torch.linspace(-0.7, 0.8, 9).view(3, 3))

    def forward(self, x: Any, state: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            new = {"h": torch.tanh(state["h"] @ self.weight + x), "n": state["n"] + x.sum(0)}
            return new, (new["h"].sum(1), new["h"] * 2)

        return scan(step, state, x, dim=self.dim, reverse=self.reverse)


class Rows(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return over_rows(lambda row, y: torch.sin(row) @ y, x, y)


class Cumulative(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


def agree(run: Callable[..., Any], module: torch.nn.Module, *values: Any) -> None:
    for got, want in zip(tree_leaves(run(*values)), tree_leaves(module(*values)), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, True)])
def test_scan(dim: int, reverse: bool) -> None:
    module = Recurrent(dim, reverse)

    def given(length: int) -> tuple[Any, Any]:
        x = torch.randn(*((2, length, 3) if dim else (length, 2, 3)))
        return x, {"h": torch.randn(2, 3), "n": torch.zeros(3)}

    run = burn.compile(module, given(5), dynamic={"x": {dim: "length"}})
    for length in (1, 2, 7):
        agree(run, module, *given(length))


@pytest.mark.parametrize(("dim", "reverse"), [(0, True), (1, False)])
def test_gradients_of_scan(dim: int, reverse: bool) -> None:
    module = Recurrent(dim, reverse)
    x, h = torch.randn(4, 4, 3), torch.randn(4, 3)
    found = []
    for run in (module, torch.compile(module, backend="burn")):
        leaves = [x.clone().requires_grad_(), h.clone().requires_grad_()]
        last, (sums, _) = run(leaves[0], {"h": leaves[1], "n": torch.zeros(3)})
        (last["h"].square().sum() + sums.sin().sum()).backward()
        assert module.weight.grad is not None
        found.append([*(leaf.grad for leaf in leaves), module.weight.grad.clone()])
        module.zero_grad()
    torch.testing.assert_close(found[1], found[0])


def test_map() -> None:
    run = burn.compile(Rows(), (torch.randn(4, 2, 3), torch.randn(3, 5)), dynamic={"x": {0: "n"}})
    for n in (1, 2, 9):
        agree(run, Rows(), torch.randn(n, 2, 3), torch.randn(3, 5))
    x, y = torch.randn(3, 2, 3, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    runs = Rows(), torch.compile(Rows(), backend="burn")
    found = [torch.autograd.grad(run(x, y).square().sum(), (x, y)) for run in runs]
    torch.testing.assert_close(found[1], found[0])


def test_associative_scan() -> None:
    x = torch.randn(7, 3)
    agree(burn.compile(Cumulative(), (x,)), Cumulative(), x)
