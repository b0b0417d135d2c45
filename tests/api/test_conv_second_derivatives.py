"""Second derivatives of convolutions whose sizes only a run tells: rows that no window reaches have a zero gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops

torch = pytest.importorskip("torch")

SPECS = (
    ("float32[2, h, 7]", "float32[1, 2, 2, 2]"),
    ("float32[2, 4, 7]", "float32[1, 2, k, 2]"),
    ("float32[2, h, w]", "float32[1, 2, k, l]"),
    ("float32[n, n, 7]", "float32[1, n, 2, 2]"),
)


@pytest.mark.parametrize("types", SPECS)
def test_hvp_of_a_strided_convolution(types: tuple[str, str]) -> None:
    numbers = np.random.default_rng(0)

    def loss(x: burn.Tensor, w: burn.Tensor) -> burn.Tensor:
        return (ops.conv(x[None], w, strides=(3, 2), dilations=(1, 1), low=(2, 1), high=(0, 1), groups=1) ** 2).sum()

    def hvp(x: burn.Tensor, w: burn.Tensor) -> list[burn.Tensor]:
        primals, tangents = burn.jvp(lambda *own: burn.grad(loss, (0, 1))(*own), (x, w), (x * 0 + 1, w * 0 + 1))
        return [*primals, *tangents]

    named = burn.compile(hvp, types, cache=False)
    square = types[0].startswith("float32[n")
    for height in (3, 4, 5, 6) if "4, 7" not in types[0] else (4,):
        channels = height if square else 2
        x = numbers.standard_normal((channels, height, 7)).astype("float32")
        w = numbers.standard_normal((1, channels, 2, 2)).astype("float32")
        for got, want in zip(named(x, w), _wanted(x, w), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    if not square:
        for got, want in zip(burn.compile(hvp, (x, w), cache=False)(x, w), _wanted(x, w), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def _wanted(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    """The gradients and their derivatives along ones, by torch in float64."""

    def loss(x: Any, w: Any) -> Any:
        padded = torch.nn.functional.pad(x[None], (1, 0, 2, 0))
        return (torch.nn.functional.conv2d(padded, w, stride=(3, 2)) ** 2).sum()

    given = tuple(torch.from_numpy(a).double() for a in (x, w))
    gradients = torch.autograd.functional.vjp(loss, given)[1]
    second = torch.autograd.functional.hvp(loss, given, tuple(map(torch.ones_like, given)))[1]
    return [each.numpy() for each in (*gradients, *second)]
