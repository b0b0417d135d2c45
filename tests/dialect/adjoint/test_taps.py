"""Weight gradients of convolutions with much padding: taps apart, beside sums in float64."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn import ops
from burn.dialect.adjoint import taps
from burn.dialect.adjoint.taps import axis_apart, runs
from burn.tensors import Tensor

# sizes, kernel, strides, dilations, low, high
CASES = [
    ((16, 16), (3, 3), (1, 1), (12, 12), (12, 12), (12, 12)),
    ((16, 9), (3, 3), (1, 1), (24, 2), (24, 2), (24, 2)),  # the outer rows read padding alone
    ((7, 11), (3, 4), (2, 3), (5, 3), (6, 0), (7, 11)),
    ((5, 1), (5, 3), (1, 1), (1, 1), (2, 1), (2, 1)),
    ((13,), (4,), (3,), (7,), (1,), (20,)),
    ((3, 4, 5), (3, 2, 3), (1, 2, 1), (3, 1, 4), (3, 1, 4), (3, 0, 4)),
]


def expected(x: np.ndarray, g: np.ndarray, kernel, strides, dilations, low, high) -> np.ndarray:
    """[o, c, k..]: the sum over batch and outputs of the cotangent times the elements under each tap."""
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), *zip(low, high, strict=True)))
    found = np.zeros((g.shape[1], x.shape[1], *kernel))
    for tap in np.ndindex(*kernel):
        rows = zip(tap, dilations, strides, g.shape[2:], strict=True)
        under = padded[(slice(None), slice(None), *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in rows))]
        found[(slice(None), slice(None), *tap)] = np.tensordot(g.astype("f8"), under, ((0, *range(2, g.ndim)),) * 2)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the derivative of the gradient, in a direction of the weight's cotangent."""
    sizes, kernel, strides, dilations, low, high = case
    monkeypatch.setattr(taps, "SAVED", 0.01)
    monkeypatch.setattr(taps, "WORTH", 0)
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(s, np.float32) for s in ((2, 3, *sizes), (5, 3, *kernel)))
    options = {"strides": strides, "dilations": dilations, "low": low, "high": high}

    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return ops.conv(x, weight, **options)

    g = rng.standard_normal(np.asarray(forward(burn.tensor(x), burn.tensor(weight))).shape, np.float32)
    direction = rng.standard_normal(weight.shape, np.float32)

    def gradient(x: Tensor, g: Tensor) -> Tensor:
        return burn.grad(lambda weight: (forward(x, weight) * g).sum())(burn.tensor(weight))

    def along(x: Tensor, g: Tensor) -> Tensor:
        return burn.grad(lambda g: (gradient(x, g) * burn.tensor(direction)).sum())(g)

    got, second = burn.compile(lambda x, g: (gradient(x, g), along(x, g)), [x, g], cache=False)(x, g)
    np.testing.assert_allclose(got, expected(x, g, kernel, strides, dilations, low, high), rtol=1e-5, atol=1e-4)
    # the gradient is linear in g, and its derivative is the convolution with the direction
    np.testing.assert_allclose(
        second, np.asarray(forward(burn.tensor(x), burn.tensor(direction))), rtol=1e-5, atol=1e-4
    )


def test_taps_are_apart_if_that_saves_much() -> None:
    far, near = runs(16, 16, 3, 1, 12, 12), runs(56, 56, 3, 1, 1, 1)
    assert far == [(0, 1, 12, 4), (1, 1, 0, 16), (2, 1, 0, 4)]
    assert axis_apart([far, far], (16, 16), 1 << 30) == 0 and axis_apart([far, far], (16, 16), 1 << 10) is None
    assert axis_apart([near, near], (56, 56), 1 << 30) is None
    assert runs(16, 16, 3, 1, 24, 24) == [(0, 1, 0, 0), (1, 1, 0, 16), (2, 1, 0, 0)]
