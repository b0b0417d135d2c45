"""Weight gradients of grouped convolutions as matmuls of several groups, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.caching import executable
from burn.dialect.adjoint.contraction import kernel_gradient
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.passes import merge_groups
from burn.passes.merge_groups import MergeGroups

torch = pytest.importorskip("torch")

CASES: dict[str, tuple[int, int, int, tuple[int, int]]] = {
    "four channels, three groups": (3, 4, 4, (1, 1)),
    "eight channels, stride 2": (16, 8, 8, (2, 2)),
    "a multiplier": (5, 2, 6, (1, 2)),
}
"""Groups, channels of a group in and out, strides."""


def gradient(groups: int, inputs: int, outputs: int, strides: tuple[int, int], n: int = 2) -> Program:
    types = [("few", (n, groups * outputs, 4, 5)), ("many", (n, groups * inputs, 4 * strides[0], 5 * strides[1]))]
    made = Program.create([(name, TensorType("float16", shape)) for name, shape in types])
    with made.building("node"):
        few, many = made.inputs
        low, high = (1, 1), tuple(2 - s for s in strides)
        found: Any = kernel_gradient(few, many, (3, 3), strides, low, high, (1, 1), groups)
    made.finish([("y", found)])
    return made


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    groups, inputs, outputs, strides = CASES[name]
    monkeypatch.setattr(merge_groups, "DEEP", 1)
    made = gradient(*CASES[name])
    assert MergeGroups().run(made) == {"merged": 1}
    rng = np.random.default_rng(0)
    shapes: Any = [type_of(v).shape for v in made.inputs]
    few, many = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    got = executable(made)(few, many)
    weight = torch.zeros(groups * outputs, inputs, 3, 3, dtype=torch.float64, requires_grad=True)
    x = torch.nn.functional.pad(torch.tensor(many).double(), (1, 2 - strides[1], 1, 2 - strides[0]))
    y = torch.nn.functional.conv2d(x, weight, stride=strides, groups=groups)
    (want,) = torch.autograd.grad(y, weight, torch.tensor(few).double())
    np.testing.assert_allclose(got.astype(np.float64), want.numpy(), rtol=4e-3, atol=2e-2)


def test_few_pixels_and_wide_groups_stay() -> None:
    assert MergeGroups().run(gradient(4, 4, 4, (1, 1))) == {"merged": 0}  # a depth of 40
    assert MergeGroups().run(gradient(2, 32, 32, (1, 1), n=64)) == {"merged": 0}
    assert MergeGroups().run(gradient(4, 4, 4, (1, 1), n=64)) == {"merged": 1}
