"""Grouped convolutions of channels-first images as matmuls of sliding windows, beside float64.

BURN_SWEEP=300 draws so many, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

import burn
from burn import ops
from burn.codegen.cpu import target as targets
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.dialect.contraction import Conv
from burn.dialect.types import TensorType
from burn.passes.decompose import Decompose
from burn.passes.environment import Environment
from burn.passes.grouped_images import GroupedImages
from burn.passes.layout import Layout
from burn.tensors import Tensor
from burn.tracing.trace import trace
from tests.codegen.cpus import FLOAT_TARGETS

SWEEP = int(os.environ.get("BURN_SWEEP", "6"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))

CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For images of any size."""
    monkeypatch.setattr("burn.codegen.cpu.heuristics.preferences.is_read_channels_first", lambda *_, target: True)
    preferences_of.cache_clear()
    yield
    preferences_of.cache_clear()


@dataclass(frozen=True)
class Case:
    """A convolution with bias and ReLU. Channels are those of a group."""

    batch: int
    groups: int
    inputs: int
    outputs: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    seed: int = 0

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        rng, outputs = np.random.default_rng(self.seed), self.groups * self.outputs
        weight = rng.standard_normal((outputs, self.inputs, *self.kernel), np.float32)
        return weight, rng.standard_normal((outputs, *[1] * len(self.kernel)), np.float32)

    @property
    def image(self) -> np.ndarray:
        shape = (self.batch, self.groups * self.inputs, *self.sizes)
        return np.random.default_rng(self.seed + 1).standard_normal(shape, np.float32)

    def convolved(self, x: Tensor, weight: Any) -> Tensor:
        return ops.conv(
            x,
            burn.tensor(weight),
            strides=self.strides,
            dilations=self.dilations,
            low=self.low,
            high=self.high,
            groups=self.groups,
        )

    def result(self, x: Tensor) -> Tensor:
        weight, bias = self.weights
        return ops.relu(self.convolved(x, weight) + burn.tensor(bias)) * 2.0

    def expected(self, x: np.ndarray) -> np.ndarray:
        weight, bias = (torch.from_numpy(a.astype("f8")) for a in self.weights)
        pads = [pad for both in zip(reversed(self.low), reversed(self.high), strict=True) for pad in both]
        padded = torch.nn.functional.pad(torch.from_numpy(x.astype("f8")), pads)
        made = CONVOLUTIONS[len(self.sizes)](padded, weight, None, self.strides, 0, self.dilations, self.groups)
        return (torch.relu(made + bias) * 2.0).numpy()


CASE = Case(2, 3, 5, 9, (11, 13), (3, 2), (2, 1), (1, 2), (1, 0), (2, 1))


def replaced(function: Any, x: np.ndarray) -> tuple[int, int]:
    """The convolutions that the pass replaced, and those that are left."""
    program = trace(function, {"x": TensorType("float32", x.shape)})
    env = Environment(CPU(targets.find("avx2")))
    Decompose().run(program, env)
    Layout().run(program, env)
    count = GroupedImages().run(program, env)["grouped images"]
    return count, sum(isinstance(operation.opview, Conv) for operation in program.block.operations)


def close(got: Any, want: np.ndarray) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-4)


def drawn(seed: int) -> Case:
    rng = random.Random(seed)
    rank = rng.choice((1, 2, 2, 3))

    def numbers(*choices: int) -> tuple[int, ...]:
        return tuple(rng.choice(choices) for _ in range(rank))

    return Case(
        rng.choice((1, 1, 3)), rng.choice((2, 3, 5)), rng.choice((1, 2, 7, 16)), rng.choice((1, 3, 8, 16, 21)),
        numbers(5, 6, 9, 16), numbers(1, 2, 3), numbers(1, 1, 2, 3), numbers(1, 1, 2), numbers(0, 0, 1, 2),
        numbers(0, 0, 1, 2), seed,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(SEED, SEED + SWEEP))
def test_drawn(seed: int) -> None:
    case = drawn(seed)
    close(burn.compile(case.result, [case.image], cache=False)(case.image), case.expected(case.image))


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_results(target: str) -> None:
    assert replaced(CASE.result, CASE.image) == (1, 0)
    close(burn.compile(CASE.result, [CASE.image], target=target, cache=False)(CASE.image), CASE.expected(CASE.image))


def test_open_sizes() -> None:
    """With 0 images."""
    run = burn.compile(CASE.result, [CASE.image], {0: {0: "n", 2: "height", 3: "width"}}, cache=False)
    for batch, *sizes in ((2, 7, 9), (0, 3, 4), (1, 3, 3), (3, 12, 5)):
        case = replace(CASE, batch=batch, sizes=tuple(sizes))
        close(run(case.image), case.expected(case.image))


def test_a_residual_image() -> None:
    case = replace(CASE, outputs=5, kernel=(1, 1), strides=(1, 1), dilations=(1, 1), low=(0, 0), high=(0, 0))
    weight, _ = case.weights

    def function(x: Tensor) -> Tensor:
        return case.convolved(x, weight) + x

    assert replaced(function, case.image) == (1, 0)
    x = torch.from_numpy(case.image.astype("f8"))
    want = torch.conv2d(x, torch.from_numpy(weight.astype("f8")), groups=case.groups) + x
    close(burn.compile(function, [case.image], cache=False)(case.image), want.numpy())


def test_neighbours_stay() -> None:
    """Two convolutions share channels-last images."""
    case = replace(CASE, outputs=5, kernel=(3, 3), strides=(1, 1), dilations=(1, 1), low=(1, 1), high=(1, 1))
    weight, _ = case.weights

    def function(x: Tensor) -> Tensor:
        return case.convolved(ops.relu(case.convolved(x, weight)), weight)

    assert replaced(function, case.image) == (0, 2)


def test_results_of_a_square() -> None:
    """An op of the epilogue reads the convolution twice."""
    weight, _ = CASE.weights

    def square(x: Tensor) -> Tensor:
        made = CASE.convolved(x, weight)
        return made * made

    assert replaced(square, CASE.image) == (1, 0)
    padded = torch.nn.functional.pad(torch.from_numpy(CASE.image.astype("f8")), [0, 1, 1, 2])
    weight64 = torch.from_numpy(weight.astype("f8"))
    want = torch.conv2d(padded, weight64, None, CASE.strides, 0, CASE.dilations, CASE.groups).numpy() ** 2
    close(burn.compile(square, [CASE.image], cache=False)(CASE.image), want)


def test_a_weight_that_is_an_input_stays() -> None:
    program = trace(
        CASE.convolved,
        {"x": TensorType("float32", CASE.image.shape), "weight": TensorType("float32", CASE.weights[0].shape)},
    )
    env = Environment(CPU(targets.find("avx2")))
    Layout().run(program, env)
    assert GroupedImages().run(program, env) == {"grouped images": 0}
