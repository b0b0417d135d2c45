"""Regions of convolutions of one tap as matmuls of channels-first images, beside float64.

BURN_SWEEP=300 draws so many, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import find
from burn.dialect.contraction import Conv
from burn.dialect.types import TensorType
from burn.passes.channels_first import ChannelsFirst
from burn.passes.decompose import Decompose
from burn.passes.environment import Environment
from burn.tensors import Tensor
from burn.tracing.trace import trace
from tests.codegen.cpus import FLOAT_TARGETS

SWEEP = int(os.environ.get("BURN_SWEEP", "6"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))

Layer = tuple[np.ndarray, np.ndarray, int]
"""A weight [O, C/g, 1..], a bias [O, 1..] and the number of groups."""


def multiplied(x: Tensor, weight: np.ndarray, groups: int) -> Tensor:
    rank = weight.ndim - 2
    ones, none = (1,) * rank, (0,) * rank
    return ops.conv(x, burn.tensor(weight), strides=ones, dilations=ones, low=none, high=none, groups=groups)


def expected(x: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    outputs, inputs, *_ = weight.shape
    each = x.astype("f8").reshape(len(x), groups, inputs, math.prod(x.shape[2:]))
    made = np.einsum("goi,ngip->ngop", weight.astype("f8").reshape(groups, outputs // groups, inputs), each)
    return made.reshape(len(x), outputs, *x.shape[2:])


def layer(rng: np.random.Generator, inputs: int, outputs: int, groups: int, rank: int) -> Layer:
    """Channels are those of a group."""
    ones = (1,) * rank
    weight = rng.standard_normal((groups * outputs, inputs, *ones), np.float32)
    return weight, rng.standard_normal((groups * outputs, *ones), np.float32), groups


def count(function: Callable[..., Any], *inputs: np.ndarray, target: str = "avx512") -> tuple[int, int]:
    """The convolutions that the pass replaced, and those that are left."""
    types = {f"x{i}": TensorType("float32", x.shape) for i, x in enumerate(inputs)}
    program = trace(function, types)
    env = Environment(CPU(find(target)))
    Decompose().run(program, env)
    replaced = ChannelsFirst().run(program, env)["channels first"]
    return replaced, sum(isinstance(operation.opview, Conv) for operation in program.block.operations)


def close(got: Any, want: np.ndarray) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-4)


@dataclass(frozen=True)
class Chain:
    """Layers with ReLU. The input of each layer of as many outputs is added to its result."""

    layers: tuple[Layer, ...]

    def result(self, x: Tensor) -> Tensor:
        for weight, bias, groups in self.layers:
            made = ops.relu(multiplied(x, weight, groups) + burn.tensor(bias))
            x = made + x if made.shape[1] == x.shape[1] else made
        return x

    def expected(self, x: np.ndarray) -> np.ndarray:
        for weight, bias, groups in self.layers:
            made = np.maximum(expected(x, weight, groups) + bias, 0)
            x = made + x if made.shape[1] == x.shape[1] else made
        return x


def drawn(seed: int) -> tuple[Chain, np.ndarray]:
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    rank = rng.choice((1, 2, 2, 3))
    first = channels = rng.choice((1, 2, 6, 12, 17, 24))
    layers = []
    for _ in range(rng.randint(1, 3)):
        groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
        outputs = rng.choice((1, 2, 3, channels // groups, 9))
        layers.append(layer(numbers, channels // groups, outputs, groups, rank))
        channels = groups * outputs
    sizes = [rng.choice((0, 1, 2, 7, 13, 16)) for _ in range(rank)]
    return Chain(tuple(layers)), numbers.standard_normal((rng.choice((1, 2, 3)), first, *sizes), np.float32)


@pytest.mark.parametrize("seed", range(SEED, SEED + SWEEP))
def test_drawn(seed: int) -> None:
    chain, x = drawn(seed)
    close(burn.compile(chain.result, [x], cache=False)(x), chain.expected(x))


GROUPED = Chain(tuple(layer(np.random.default_rng(1), *sizes) for sizes in ((5, 3, 4, 2), (6, 6, 2, 2), (2, 5, 6, 2))))
"""Layers with other groups than those before."""


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_results(target: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 20, 7, 5), np.float32)
    assert count(GROUPED.result, x) == (3, 0)
    close(burn.compile(GROUPED.result, [x], target=target, cache=False)(x), GROUPED.expected(x))


def test_open_sizes() -> None:
    """With 0 images, and 0 elements along an axis."""
    x = np.zeros((1, 20, 4, 4), np.float32)
    run = burn.compile(GROUPED.result, [x], {0: {0: "n", 2: "height", 3: "width"}}, cache=False)
    for batch, *sizes in ((2, 7, 9), (0, 3, 3), (1, 1, 2), (3, 0, 5)):
        x = np.random.default_rng(batch).standard_normal((batch, 20, *sizes), np.float32)
        close(run(x), GROUPED.expected(x))


def strided(x: Tensor, weight: np.ndarray, groups: int, strides: tuple[int, ...]) -> Tensor:
    none = (0,) * len(strides)
    ones = (1,) * len(strides)
    return ops.conv(x, burn.tensor(weight), strides=strides, dilations=ones, low=none, high=none, groups=groups)


@pytest.mark.parametrize("strides", [(2, 2), (1, 3), (4, 9)], ids=str)
@pytest.mark.parametrize("target", ("avx2", "generic"))
def test_strides(target: str, strides: tuple[int, int]) -> None:
    """The image is sliced. A second layer with strides has one pixel to read, or an image of another size."""
    rng = np.random.default_rng(4)
    (weight, bias, groups), (second, _, others) = layer(rng, 5, 3, 4, 2), layer(rng, 2, 7, 6, 2)

    def function(x: Tensor) -> Tensor:
        return strided(ops.relu(strided(x, weight, groups, strides) + burn.tensor(bias)), second, others, strides)

    x = rng.standard_normal((2, 20, 7, 5), np.float32)[:, :, : strides[0], : strides[1]]
    whole = rng.standard_normal((2, 20, 7, 5), np.float32)
    for image in (x, whole):
        read = image[:, :, :: strides[0], :: strides[1]]
        want = np.maximum(expected(read, weight, groups) + bias, 0)[:, :, :: strides[0], :: strides[1]]
        close(burn.compile(function, [image], target=target, cache=False)(image), expected(want, second, others))
    assert count(function, x) == (2, 0)


def test_strides_of_an_open_size() -> None:
    weight, _, groups = layer(np.random.default_rng(5), 3, 4, 8, 2)
    x = np.zeros((1, 24, 4, 4), np.float32)
    run = burn.compile(
        lambda x: strided(x, weight, groups, (3, 2)), [x], {0: {0: "n", 2: "height", 3: "width"}}, cache=False
    )
    for batch, *sizes in ((2, 7, 9), (0, 3, 3), (1, 1, 2), (3, 4, 6)):
        x = np.random.default_rng(batch).standard_normal((batch, 24, *sizes), np.float32)
        close(run(x), expected(x[:, :, ::3, ::2], weight, groups))


OPERANDS = {
    "a number": (),
    "pixels": (7, 5),
    "a row": (5,),
    "rows": (7, 1),
    "one image": (1, 12, 7, 5),
    "images": (2, 1, 7, 5),
}


@pytest.mark.parametrize("shape", OPERANDS.values(), ids=OPERANDS)
def test_operands_that_are_broadcast(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    weight, _, groups = layer(rng, 5, 3, 4, 2)
    x, other = rng.standard_normal((2, 20, 7, 5), np.float32), rng.standard_normal(shape, np.float32)

    def function(x: Tensor, other: Tensor) -> Tensor:
        return multiplied(x, weight, groups) * other

    assert count(function, x, other) == (1, 0)
    close(burn.compile(function, [x, other], cache=False)(x, other), expected(x, weight, groups) * other)


def test_values_between_are_results() -> None:
    weight, bias, groups = layer(np.random.default_rng(3), 3, 3, 5, 1)
    x = np.random.default_rng(4).standard_normal((2, 15, 11), np.float32)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        first = multiplied(x, weight, groups) + burn.tensor(bias)
        return first, multiplied(first, weight, groups) - first

    first = expected(x, weight, groups) + bias
    assert count(function, x) == (2, 0)
    for got, want in zip(
        burn.compile(function, [x], cache=False)(x), (first, expected(first, weight, groups) - first), strict=True
    ):
        close(got, want)


def test_infinities_and_nan_stay_in_their_pixels() -> None:
    weight, _, groups = layer(np.random.default_rng(5), 4, 4, 3, 1)
    x = np.random.default_rng(6).standard_normal((1, 12, 19), np.float32)
    x[0, 1, 3], x[0, 9, 7] = np.inf, np.nan
    got = np.asarray(burn.compile(partial(multiplied, weight=weight, groups=groups), [x], cache=False)(x))
    bad = np.zeros_like(got, bool)
    bad[0, 0:4, 3], bad[0, 8:12, 7] = True, True
    np.testing.assert_array_equal(np.isfinite(got), ~bad)


def test_pooling_makes_images_channels_last() -> None:
    """A reduction in the region is not among the ops that it consists of."""
    weight, _, groups = layer(np.random.default_rng(7), 4, 4, 3, 2)
    x = np.zeros((1, 12, 4, 4), np.float32)
    assert count(lambda x: multiplied(x, weight, groups).mean((2, 3)), x) == (0, 1)


def test_gradients() -> None:
    weight, bias, groups = layer(np.random.default_rng(8), 4, 3, 3, 1)
    x = np.random.default_rng(9).standard_normal((2, 12, 9), np.float32)

    def loss(x: Tensor) -> Tensor:
        return ((multiplied(x, weight, groups) + burn.tensor(bias)) ** 2).sum()

    made = 2 * (expected(x, weight, groups) + bias)
    back = weight.reshape(groups, 3, 4).transpose(0, 2, 1).reshape(12, 3, 1)
    close(burn.jit(burn.grad(loss))(x), expected(made, back, groups))


@pytest.mark.parametrize("size, channels, replaced", [(80, 24, 0), (80, 20, 4), (28, 24, 4)])
def test_large_images_between_convolutions(size: int, channels: int, replaced: int) -> None:
    """Four layers of whole vectors of channels are channels-last if a second-level cache does not hold the images."""
    rng = np.random.default_rng(6)
    layers = (layer(rng, channels, channels, 1, 2) for _ in range(4))
    chain = Chain(tuple((weight / channels, bias, groups) for weight, bias, groups in layers))
    x = rng.standard_normal((1, channels, size, size), np.float32)
    assert count(chain.result, x, target="avx2") == (replaced, 4 - replaced)
    close(burn.compile(chain.result, [x], target="avx2", cache=False)(x), chain.expected(x))


def test_one_convolution_of_a_large_image() -> None:
    """Nothing is between convolutions."""
    rng = np.random.default_rng(7)
    chain = Chain((layer(rng, 16, 24, 1, 2),))
    x = rng.standard_normal((1, 16, 112, 112), np.float32)
    assert count(chain.result, x, target="avx2") == (1, 0)
