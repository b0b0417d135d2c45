"""Strided convolutions of few channels as convolutions of stride 1, and their weight gradients, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.caching import executable
from burn.dialect import ops
from burn.dialect.adjoint.contraction import kernel_gradient
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.passes.space_to_depth import SpaceToDepth

torch = pytest.importorskip("torch")

CASES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "7x7, stride 2": (3, (13, 16), (7, 7), (2, 2), (3, 3)),
    "patches": (3, (9, 13), (4, 4), (4, 4), (0, 0)),
    "pixels that no window reads": (1, (12, 11), (3, 3), (2, 3), (0, 1)),
    "1-D": (2, (23,), (5,), (3,), (2,)),
}
"""Channels, sizes, kernel, strides, padding."""


def built(name: str, function: Any, *shapes: tuple[int, ...]) -> tuple[Program, list[np.ndarray]]:
    made = Program.create([(f"x{i}", TensorType("float16", shape)) for i, shape in enumerate(shapes)])
    with made.building("node"):
        found = function(*made.inputs)
    made.finish([("y", found)])
    assert SpaceToDepth().run(made) == {"folded": 1}
    rng = np.random.default_rng(len(name))
    return made, [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def shapes_of(name: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Of the image, the weight and the result."""
    channels, sizes, kernel, strides, padding = CASES[name]
    rows = zip(sizes, kernel, strides, padding, strict=True)
    return (2, channels, *sizes), (5, channels, *kernel), (2, 5, *((d + 2 * p - k) // s + 1 for d, k, s, p in rows))


def convolved(name: str, x: Any, weight: Any) -> Any:
    *_, strides, padding = CASES[name]
    call = torch.nn.functional.conv1d if len(strides) == 1 else torch.nn.functional.conv2d
    return call(x, weight, stride=strides, padding=padding)


@pytest.mark.parametrize("name", CASES)
def test_forward(name: str) -> None:
    *_, strides, padding = CASES[name]
    ones = (1,) * len(strides)
    options = {"strides": strides, "dilations": ones, "low": padding, "high": padding}
    image, weight, _ = shapes_of(name)
    made, given = built(name, lambda x, w: ops.conv(x, w, **options), image, weight)
    want = convolved(name, *(torch.tensor(a).double() for a in given))
    np.testing.assert_allclose(executable(made)(*given).astype(np.float64), want.numpy(), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str) -> None:
    _, _, kernel, strides, padding = CASES[name]
    ones = (1,) * len(strides)

    def function(g: Any, x: Any) -> Any:
        return kernel_gradient(g, x, kernel, strides, padding, padding, ones, 1)

    image, shape, result = shapes_of(name)
    made, given = built(name, function, result, image)
    g, x = (torch.tensor(a).double() for a in given)
    weight = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    (want,) = torch.autograd.grad(convolved(name, x, weight), weight, g)
    np.testing.assert_allclose(executable(made)(*given).astype(np.float64), want.numpy(), rtol=2e-3, atol=5e-2)


def test_others_stay() -> None:
    ones, none = (1, 1), (0, 0)
    kept = [
        ((1, 3, 8, 8), (4, 3, 3, 3), ones, "float16"),
        ((1, 3, 8, 8), (4, 3, 1, 1), (2, 2), "float16"),
        ((1, 8, 8, 8), (4, 8, 3, 3), (2, 2), "float16"),
        ((1, 3, 8, 8), (4, 3, 3, 3), (2, 2), "float32"),
    ]
    for image, weight, strides, dtype in kept:
        made = Program.create([("x", TensorType(dtype, image)), ("w", TensorType(dtype, weight))])
        with made.building("node"):
            found = ops.conv(*made.inputs, strides=strides, dilations=ones, low=none, high=none)
        made.finish([("y", found)])
        assert SpaceToDepth().run(made) == {"folded": 0}
        assert type_of(made.outputs[0]).dtype == dtype
