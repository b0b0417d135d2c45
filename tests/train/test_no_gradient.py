"""A loss that depends on no parameter is an error in every form of training, as it is in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import TypeMismatch

X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)
OTHER = nn.Linear(3, 2)


def of_another_model(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return ((OTHER(x) - y) ** 2).mean()


def of_classes(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return (model(x).argmax(-1).astype("float32") - y[:, 0]).mean()


def stopped(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.MSELoss()(burn.stop_gradient(model(x)), y)


LOSSES = [of_another_model, of_classes, stopped]


def refused(run: Callable[[], Any], *parts: str) -> None:
    with pytest.raises(TypeMismatch, match="the loss has no gradient") as error:
        run()
    for part in (*parts, "none of the parameters: weight, bias", "test_no_gradient.py:"):
        assert part in str(error.value)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"clip_norm": 1.0}], ids=str)
def test_steps(loss: Callable[..., Any], options: dict[str, Any]) -> None:
    model = nn.Linear(3, 2)
    step = burn.train.step(model, loss, optim.AdamW(model, lr=0.1), **options)
    before = model.weight.numpy().copy()
    refused(lambda: step(X, Y))
    np.testing.assert_array_equal(model.weight.numpy(), before)


def test_other_forms() -> None:
    model = nn.Linear(3, 2)
    lbfgs = burn.train.step(model, of_another_model, optim.LBFGS(model))
    refused(lambda: lbfgs(X, Y))
    step = burn.train.step(model, of_another_model, optim.SGD(model, lr=0.1))
    refused(lambda: step.over([(X, Y), (X[:2], Y[:2])]))
    learner = burn.train.Learner(model, of_another_model, optim.SGD(model, lr=0.1))
    refused(lambda: learner.fit([(X, Y)], epochs=1))


def test_an_optimizer_of_a_part_that_the_loss_does_not_use() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            self.used, self.idle = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            return self.used(x)

    model = Two()
    step = burn.train.step(model, lambda m, x, y: ((m(x) - y) ** 2).mean(), optim.SGD(model.idle, lr=0.1))
    with pytest.raises(TypeMismatch, match=r"none of the parameters: idle\.weight, idle\.bias"):
        step(X, Y)
    both = burn.train.step(model, lambda m, x, y: ((m(x) - y) ** 2).mean(), optim.SGD(model, lr=0.1))
    both(X, Y)  # an unused part beside a used one is left alone


def test_gradients_by_what_a_function_ignores_are_zero() -> None:
    """A function of tensors may ignore one, and second derivatives of piecewise linear functions are zero, as in JAX."""
    np.testing.assert_array_equal(burn.grad(lambda x: burn.constant(1.0))(X), np.zeros_like(X))
    gradients = burn.grad(lambda m, x: x.sum(), argnums=(0, 1))(nn.Linear(3, 2), X)
    assert gradients[0].unused == {"weight", "bias"}
    np.testing.assert_array_equal(gradients[1], np.ones_like(X))

    def slope(m: nn.Module) -> burn.Tensor:
        return burn.grad(lambda m: burn.relu(m(burn.constant(X))).sum())(m)["bias"].sum()

    second = burn.grad(slope)(nn.Linear(3, 2))
    np.testing.assert_array_equal(second["weight"], np.zeros((2, 3)))
