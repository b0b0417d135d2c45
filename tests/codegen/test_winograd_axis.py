"""Convolutions of bfloat16 in tiles along one axis: every kind of window and size, special values, and their accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from burn.codegen.cpu.passes import _with
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.codegen.pipeline import with_precision
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes.winograd_axis import TILE
from burn.passes.winograd_matrices import flat, transforms
from burn.runtime.executable import Executable
from burn.runtime.host import features

TILES = with_precision(_with("winograd{always bfloat16 square=false},pack"), "bfloat16").text
DIRECT = with_precision(_with("pack"), "bfloat16").text

TIMES = 4
"""How many times as large as that of direct convolution the error of the sums may be: about three times."""

needs_pairs = pytest.mark.skipif(TARGETS["avx512bf16"] not in host_targets(features()), reason="no AVX512-BF16")

Sizes = Sequence[int]


def convolution(weight: np.ndarray, images: Dim, sizes: Sizes, **attrs) -> Program:
    """Channels first, and a rectifier behind."""
    program = Program.create([("x", TensorType("float32", (images, attrs["groups"] * weight.shape[1], *sizes)))])
    with program.building("conv"):
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype="float32")
        y = ops.relu(ops.conv(program.inputs[0], filter, **attrs))
    return program.finish([("y", y)])


def compiled(program: Program, passes: str) -> Executable:
    target = replace(TARGETS["avx512bf16"], mixed=True)
    return Executable(compile_program(program, Options(target=target, passes=passes, cache=False)))


def reference(x: np.ndarray, weight: np.ndarray, strides, dilations, low, high, groups: int) -> np.ndarray:
    """In float64, tap by tap."""
    taps = weight.shape[2:]
    crop = tuple(slice(max(0, -a), n - max(0, -b)) for a, b, n in zip(low, high, x.shape[2:], strict=True))
    pads = [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)]
    x = np.pad(x.astype("f8")[(slice(None), slice(None), *crop)], [(0, 0), (0, 0), *pads])
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], taps, dilations, strides, strict=True)]
    y = np.zeros((x.shape[0], groups, weight.shape[0] // groups, *counts))
    parts = weight.astype("f8").reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    for tap in product(*map(range, taps)):
        at = [
            slice(t * d, t * d + (c - 1) * s + 1, s) for t, d, c, s in zip(tap, dilations, counts, strides, strict=True)
        ]
        read = x[(slice(None), slice(None), *at)].reshape(x.shape[0], groups, weight.shape[1], *counts)
        y += np.einsum("ngc...,goc->ngo...", read, parts[(slice(None),) * 3 + tap])
    return np.maximum(y.reshape(x.shape[0], weight.shape[0], *counts), 0)


@needs_pairs
@pytest.mark.parametrize(
    ("outputs", "channels", "window", "sizes", "strides", "dilations", "low", "high", "groups"),
    [
        (37, 6, (3, 3), (9, 11), (1, 1), (1, 1), (1, 1), (1, 0), 1),
        (8, 4, (3,), (17,), (1,), (5,), (5,), (5,), 1),  # the last block has 3 phases of 3 results and 2 of none
        (8, 4, (3,), (300,), (1,), (64,), (128,), (0,), 1),  # causal, one block and a part
        (16, 8, (3, 5), (9, 11), (1, 2), (1, 1), (1, 2), (1, 2), 2),  # strides along the other axis
        (8, 2, (3, 3, 3), (5, 6, 7), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
        (8, 4, (3, 3), (12, 9), (1, 1), (2, 3), (2, 3), (2, 3), 3),
        (8, 4, (3,), (17,), (1,), (1,), (-2,), (-1,), 1),  # cropped
        (1, 2, (3, 1), (3, 1), (1, 1), (1, 1), (0, 0), (2, 0), 1),  # less than a tile
    ],
)
def test_every_window(outputs: int, channels: int, window, sizes, strides, dilations, low, high, groups: int) -> None:
    """Beside float64, with two roundings to 2^-9 of terms whose magnitudes the transforms add."""
    rng = np.random.default_rng(channels)
    weight = rng.standard_normal((groups * outputs, channels, *window), np.float32)
    attrs = {"strides": strides, "dilations": dilations, "low": low, "high": high, "groups": groups}
    run = compiled(convolution(weight, symbol("n"), sizes, **attrs), TILES)
    assert any(
        "split_axis" in row.kernel.name for row in run.profile(np.zeros((1, groups * channels, *sizes), "f4")).rows
    )
    for images in (0, 1, 3):
        x = rng.standard_normal((images, groups * channels, *sizes), np.float32)
        want, got = reference(x, weight, **attrs), run(x)
        assert got.shape == want.shape and got.dtype == np.float32
        assert np.abs(got - want).max(initial=0) <= 2e-2 * np.abs(want).max(initial=0)


@needs_pairs
@pytest.mark.parametrize("shift", [0.0, 1.5])
@pytest.mark.parametrize("window", [(3, 3), (3,)])
def test_errors_are_bounded(shift: float, window: tuple[int, ...]) -> None:
    """The error of the sums, which are float32 in both forms. Pixels have bfloat16's precision already. With a shift nearly all
    are positive."""
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((32, 64, *window), np.float32)
    sizes = (30,) * len(window)
    x = np.maximum(rng.standard_normal((1, 64, *sizes), np.float32) + np.float32(shift), 0)
    x = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
    ones = (1,) * len(window)
    attrs = {"strides": ones, "dilations": ones, "low": ones, "high": ones, "groups": 1}
    want = reference(x, weight, **attrs)
    errors = [
        np.sqrt(np.mean((compiled(convolution(weight, 1, sizes, **attrs), passes)(x) - want) ** 2))
        for passes in (TILES, DIRECT)
    ]
    assert 0 < errors[0] <= TIMES * errors[1]


@needs_pairs
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_special_values_reach_only_their_tiles(special: float) -> None:
    """Results whose tiles do not read the element are those without it; the results that depend on it are not finite."""
    weight = np.random.default_rng(5).standard_normal((8, 4, 3), np.float32)
    attrs = {"strides": (1,), "dilations": (1,), "low": (1,), "high": (1,), "groups": 1}
    run = compiled(convolution(weight, 1, (40,), **attrs), TILES)
    x = np.random.default_rng(6).standard_normal((1, 4, 40), np.float32)
    plain = run(x).copy()
    x[0, 2, 17] = special
    got = run(x)
    assert not np.isfinite(got[..., 16:19]).all(axis=1).any()
    reading = [t for t in range(10) if t * TILE - 1 <= 17 <= t * TILE + TILE]
    others = [i for i in range(40) if i // TILE not in reading]
    assert np.array_equal(got[..., others], plain[..., others])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("length", [1, 5, 24, 25])
@pytest.mark.parametrize("dilation", [1, 5])
def test_split_and_join(dtype: str, length: int, dilation: int) -> None:
    """With the identity as matrix and tiles side by side, joined tiles are the elements."""
    identity = tuple(float(i == j) for i in range(3) for j in range(3))
    program = Program.create([("x", TensorType("float32", (2, length, 3, 5)))])
    with program.building("tiles"):
        x = ops.cast(program.inputs[0], dtype=dtype)
        blocks = -(-length // (3 * dilation))
        split = ops.split_axis(x, matrix=identity, size=3, step=3, axis=1, low=0, blocks=blocks, dilation=dilation)
        joined = ops.join_axis(split, matrix=identity, size=3, axis=1, length=length, dilation=dilation)
        outputs = [("split", ops.cast(split, dtype="float32")), ("joined", ops.cast(joined, dtype="float32"))]
    run = Executable(compile_program(program.finish(outputs), Options(cache=False)))
    x = np.random.default_rng(6).integers(-99, 99, (2, length, 3, 5)).astype(np.float32)
    split, joined = run(x)
    assert split.shape == (2, blocks * dilation, 3, 15) and np.array_equal(joined, x)
    assert np.array_equal(split[:, 0, :, :5], x[:, 0])


def test_decompositions_are_the_kernels() -> None:
    """Other back ends compute the ops by their decompositions."""
    by, x = transforms(TILE), np.random.default_rng(7).standard_normal((2, 7, 29, 3)).astype(np.float32)
    results = []
    for passes in ("fuse,release", "decompose,fuse,release"):
        program = Program.create([("x", TensorType("float32", x.shape))])
        with program.building("tiles"):
            split = ops.split_axis(
                program.inputs[0], matrix=flat(by.pixels), size=6, step=4, axis=2, low=3, blocks=3, dilation=3
            )
            joined = ops.join_axis(split, matrix=flat(by.results), size=4, axis=2, length=31, dilation=3)
        program = program.finish([("split", split), ("joined", joined)])
        results.append(Executable(compile_program(program, Options(passes=passes, cache=False)))(x))
    for got, want in zip(*results, strict=True):
        assert np.allclose(got, want, rtol=1e-5, atol=1e-5)
