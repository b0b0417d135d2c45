"""Initialisers: moments, bounds and shapes as their papers say; a stream of numbers a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import TypeMismatch

SHAPE = (300, 200, 3)
FAN_IN, FAN_OUT = 600, 900

# Initialiser -> (standard deviation, bound).
MOMENTS: dict[str, tuple[nn.init.Init, float, float]] = {
    "uniform": (nn.init.uniform(-2, 2), 4 / math.sqrt(12), 2),
    "normal": (nn.init.normal(0, 0.5), 0.5, math.inf),
    "truncated_normal": (nn.init.truncated_normal(0, 1, -2, 2), 0.8796, 2),
    "narrow truncated_normal": (nn.init.truncated_normal(0, 1, -0.5, 0.5), 0.2840, 0.5),
    "xavier_uniform": (nn.init.xavier_uniform(2.0), 2 * math.sqrt(2 / 1500), 2 * math.sqrt(6 / 1500)),
    "xavier_normal": (nn.init.xavier_normal(), math.sqrt(2 / 1500), math.inf),
    "kaiming_uniform": (nn.init.kaiming_uniform(), math.sqrt(2 / FAN_IN), math.sqrt(6 / FAN_IN)),
    "kaiming_normal": (nn.init.kaiming_normal("leaky_relu", 0.5, "fan_out"), math.sqrt(1.6 / FAN_OUT), math.inf),
    "lecun_uniform": (nn.init.lecun_uniform(), math.sqrt(1 / FAN_IN), math.sqrt(3 / FAN_IN)),
    "lecun_normal": (nn.init.lecun_normal(transposed=True), math.sqrt(1 / FAN_OUT), math.inf),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name: str) -> None:
    init, deviation, bound = MOMENTS[name]
    parameter = nn.Parameter(SHAPE, "float32", init)
    array = parameter.array
    assert array.shape == SHAPE and array.dtype == np.float32
    assert abs(array.mean()) < 5 * deviation / math.sqrt(array.size) and abs(array.std() / deviation - 1) < 0.01
    assert np.abs(array).max() <= bound * (1 + 1e-6)
    assert bound == math.inf or np.abs(array).max() > 0.99 * bound


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 2, 4), (1, 1)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = nn.Parameter(shape, "float64", nn.init.orthogonal(2.0)).array.reshape(shape[0], -1)
    small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)


def test_constants_and_functions_of_the_shape() -> None:
    for init, want in (
        (nn.init.zeros, np.zeros((2, 3))),
        (nn.init.ones, np.ones((2, 3))),
        (np.ones, np.ones((2, 3))),
        (nn.init.constant(1.5), np.full((2, 3), 1.5)),
        (nn.init.eye, np.eye(2, 3)),
        (lambda shape: np.arange(6.0).reshape(shape), np.arange(6.0).reshape(2, 3)),
    ):
        np.testing.assert_array_equal(nn.Parameter((2, 3), init=init).array, want)
    assert nn.Parameter((0, 3), init=nn.init.kaiming_normal()).array.shape == (0, 3)


def test_gains_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    for name in nn.init.GAINS:
        assert nn.init.gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert nn.init.gain("leaky_relu", 0.3) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.3))
    for shape in ((4, 5), (6, 4, 3), (2, 3, 4, 5)):
        weight = torch.empty(shape)
        assert nn.init.fans(shape) == torch.nn.init._calculate_fan_in_and_fan_out(weight)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: nn.init.gain("none"), "there is no gain for 'none'"),
    (lambda: nn.init.kaiming_normal(mode="fan"), "neither fan_in nor fan_out"),
    (lambda: nn.init.truncated_normal(low=1, high=1), "nothing lies"),
    (lambda: nn.Parameter((3,), init=nn.init.xavier_normal()).array, "two axes or more"),
    (lambda: nn.Parameter((3,), init=nn.init.eye).array, "an identity has two axes"),
    (lambda: nn.Parameter((3,), init=lambda shape: np.zeros(4)).array, "gave another shape"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_cannot_be_drawn(number: int) -> None:
    make, message = BAD[number]
    with pytest.raises(TypeMismatch, match=message):
        make()


def test_reset_draws_anew() -> None:
    layer = nn.Linear(20, 30)
    before = layer.weight.array
    layer.weight.reset(nn.init.kaiming_normal(), seed=7)
    first = layer.weight.array
    layer.weight.reset(nn.init.kaiming_normal(), seed=7)
    np.testing.assert_array_equal(layer.weight.array, first)
    layer.weight.reset(nn.init.kaiming_normal())
    assert not np.array_equal(layer.weight.array, first) and not np.array_equal(before, first)
    x = burn.constant(np.ones((1, 20), np.float32))
    np.testing.assert_allclose(layer(x).numpy()[0], layer.weight.array.sum(1) + layer.bias.array, rtol=1e-4, atol=1e-5)
