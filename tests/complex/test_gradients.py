"""Derivatives of functions of complex tensors, against torch, whose convention burn has: dL/dx + i dL/dy of a real loss."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import burn
from tests.complex.test_tensors import DEVICE, drawn

CHEAP = {
    "mul": lambda m, z: z * z * (2 - 1j),
    "div": lambda m, z: (1 + 2j) / z,
    "exp": lambda m, z: m.exp(z),
    "abs": lambda m, z: m.abs(z),
    "angle": lambda m, z: m.angle(z),
    "conj": lambda m, z: z.conj() * z.real,
    "matmul": lambda m, z: z @ z.conj().T,
    "sum": lambda m, z: z.sum(0) * z.mean(1)[:1],
    "cumsum": lambda m, z: z.cumsum(1),
    "index": lambda m, z: z[:, 1:] * z[1:2, :2],
    "view": lambda m, z: m.view_as_real(z) ** 2,
    "power": lambda m, z: z**3,
}
NAMES = ("log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid",
         "expm1", "log1p", "rsqrt", "reciprocal")  # fmt: skip
COSTLY = {
    **{name: (lambda m, z, n=name: getattr(m, n)(z)) for name in NAMES},
    "pow": lambda m, z: z ** (1.5 + 0.5j),
    "base": lambda m, z: (1.5 + 0.5j) ** z,
    "prod": lambda m, z: z.prod(1),
    "cumprod": lambda m, z: z.cumprod(1),
    "sign": lambda m, z: m.sgn(z) if m is torch else z.sign(),
    "variance": lambda m, z: m.var(z, correction=0) if m is torch else z.var(),
    "norm": lambda m, z: m.linalg.norm(z) if m is torch else z.norm(),
}


def loss(m: Any, function: Callable[..., Any], z: Any) -> Any:
    y = function(m, z)
    return (y.abs() ** 2).sum() if (y.is_complex() if m is torch else y.is_complex) else (y * y).sum()


def check(functions: Any, points: Any, orders: tuple[int, ...] = (1, 2)) -> None:
    def slopes(z: Any) -> Any:
        return [burn.grad(lambda x, f=f: loss(burn, f, x))(z) for f in functions.values()]

    def second(z: Any) -> Any:
        """The gradient of the real and of the imaginary part of the gradient, weighted."""
        return [
            burn.grad(lambda x, f=f: (burn.grad(lambda w: loss(burn, f, w))(x) * (0.3 - 0.7j)).real.sum())(z)
            for f in functions.values()
        ]

    for derivative in (slopes, second)[: len(orders)]:
        results = burn.jit(derivative, device=DEVICE)(burn.tensor(points))
        for (name, f), got in zip(functions.items(), results, strict=True):
            z = torch.tensor(points, requires_grad=True)
            (want,) = torch.autograd.grad(loss(torch, f, z), z, create_graph=True)
            if derivative is second:
                (want,) = torch.autograd.grad((want * (0.3 - 0.7j)).real.sum(), z)
            want = want.detach().numpy()
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9 * np.abs(want).max(), err_msg=name)


def test_derivatives() -> None:
    check(CHEAP, drawn(3, 3), orders=(1,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_second_derivatives(name: str) -> None:
    check({name: CHEAP[name]}, drawn(3, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_derivatives_of_functions(name: str) -> None:
    check({name: COSTLY[name]}, drawn(2, 3, seed=1))


def test_recorded_gradient_of_parameters_and_jvp() -> None:
    """Outside of traces, with a complex argument in a container, and forward derivatives."""
    a, b = drawn(3), drawn(3, seed=1)
    grads = burn.grad(lambda p: (p["w"] * burn.tensor(b)).abs().sum())({"w": burn.tensor(a)})
    w = torch.tensor(a, requires_grad=True)
    (w * torch.tensor(b)).abs().sum().backward()
    np.testing.assert_allclose(grads["w"].numpy(), w.grad.numpy(), rtol=1e-13)
    _, tangent = burn.jvp(lambda z: z * z, [burn.tensor(a)], [burn.tensor(b)])
    np.testing.assert_allclose(tangent.numpy(), 2 * a * b, rtol=1e-13)


def test_a_loss_is_real() -> None:
    with pytest.raises(burn.TypeMismatch, match="float scalar"):
        burn.grad(lambda z: z.sum())(burn.tensor(drawn(2)))


def test_loop_and_conditional() -> None:
    a = drawn(3) * 0.3

    def f(c: Any) -> Any:
        z = burn.fori_loop(0, 3, lambda i, z: z * z + c, c)
        return burn.cond(z.real.sum() > -100, lambda: z * 1j, lambda: z).abs().square().sum()

    c = torch.tensor(a, requires_grad=True)
    z = c
    for _ in range(3):
        z = z * z + c
    ((z * 1j).abs() ** 2).sum().backward()
    got = burn.jit(burn.grad(f), device=DEVICE)(burn.tensor(a))
    np.testing.assert_allclose(got.numpy(), c.grad.numpy(), rtol=1e-12)
