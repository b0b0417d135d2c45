"""Convolutions of few channels: pictures get their borders, and become channels-last, in kernels of their own."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

Pair = tuple[int, int]
TARGETS = [target.name for target in host_targets(features())]


def convolution(weight: np.ndarray, images: Dim, sizes: tuple[Dim, Dim], stride: int, low: Pair, high: Pair) -> Program:
    program = Program.create([("x", TensorType("float32", (images, weight.shape[1], *sizes)))])
    with program.building("conv"):
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype="float32")
        y = ops.conv(program.inputs[0], filter, strides=(stride, stride), dilations=(1, 1), low=low, high=high)
    return program.finish([("y", y)])


def reference(x: np.ndarray, weight: np.ndarray, stride: int, low: Pair, high: Pair) -> np.ndarray:
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), *zip(low, high, strict=True)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, weight.astype("f8"))


@pytest.mark.covering(of=lambda named, target: (named, target))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("channels", "sizes", "window", "stride", "low", "high"),
    [
        (3, (37, 41), 3, 2, (1, 1), (1, 1)),  # squares of four, and what is left
        (3, (64, 64), 7, 2, (3, 3), (3, 2)),
        (1, (19, 5), 5, 1, (2, 0), (0, 4)),
        (4, (8, 8), 3, 1, (1, 1), (1, 1)),
        (2, (1, 1), 3, 1, (1, 1), (1, 1)),  # nothing but borders around one pixel
        (5, (9, 9), 3, 1, (1, 1), (1, 1)),  # enough channels to be read in place
    ],
)
def test_few_channels(
    channels: int, sizes: Pair, window: int, stride: int, low: Pair, high: Pair, named: bool, target: str
) -> None:
    rng = np.random.default_rng(channels)
    weight = rng.standard_normal((11, channels, window, window)).astype(np.float32)
    along: tuple[Dim, Dim] = (symbol("h"), symbol("w")) if named else sizes
    program = convolution(weight, symbol("n"), along, stride, low, high)
    run = Executable(compile_program(program, Options(target=target)))
    for images in (0, 1, 3):
        x = rng.standard_normal((images, channels, *sizes)).astype(np.float32)
        want = reference(x, weight, stride, low, high)
        got = run(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.covering
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [1, 7, 8, 9, 31, 64, 2050])
def test_borders_of_lines(length: int, target: str) -> None:
    """Vectors that lie within a line, across one of its ends, across both, and outside."""
    x = np.random.default_rng(length).standard_normal((3, length)).astype(np.float32)
    for low, high in ((0, 1), (1, 0), (3, 40), (40, 3)):
        program = Program.create([("x", TensorType("float32", (3, length)))])
        with program.building("pad"):
            y = ops.pad(program.inputs[0], ops.full(shape=(), dtype="float32", value=2.0), low=(1, low), high=(0, high))
        run = Executable(compile_program(program.finish([("y", y)]), Options(target=target)))
        np.testing.assert_array_equal(run(x), np.pad(x, ((1, 0), (low, high)), constant_values=2.0))


@pytest.mark.covering
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 4), (3, 5), (3, 64), (3, 1031), (2, 3, 8), (4, 9)])
def test_turned_pixels(shape: tuple[int, ...], target: str) -> None:
    """The vector store of a pixel overwrites the next pixel's channels, but never another thread's range."""
    x = np.random.default_rng(1).standard_normal((*shape[:-2], *shape[-2:])).astype(np.float32)
    program = Program.create([("x", TensorType("float32", shape))])
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    with program.building("turn"):
        y = ops.mul(ops.transpose(program.inputs[0], permutation=order), ops.full(shape=(), dtype="float32", value=3.0))
    run = Executable(compile_program(program.finish([("y", y)]), Options(target=target)))
    for _ in range(3):
        np.testing.assert_array_equal(run(x), x.transpose(order) * 3)
