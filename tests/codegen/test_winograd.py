"""Winograd convolutions with constant filters: every kind of CPU and of size, and their accuracy."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.passes import PIPELINE, _with
from burn.codegen.cpu.target import TARGETS, Target, compact, host_targets
from burn.codegen.pipeline import with_precision
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

ALWAYS = PIPELINE.text.replace("winograd", "winograd{always}")
PLAIN = PIPELINE.text.replace("winograd,", "")

TIMES = 4
"""How many times as large as that of plain sums an error may be, in the mean: with these points it is about twice."""

Pair = tuple[int, int]


def convolution(weight: np.ndarray, images: Dim, sizes: Pair, low: Pair, high: Pair, groups: int = 1) -> Program:
    """Channels first, and a rectifier behind."""
    dtype = str(weight.dtype)
    program = Program.create([("x", TensorType(dtype, (images, groups * weight.shape[1], *sizes)))])
    with program.building("conv"):
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype=dtype)
        y = ops.conv(program.inputs[0], filter, strides=(1, 1), dilations=(1, 1), low=low, high=high, groups=groups)
        y = ops.relu(y)
    return program.finish([("y", y)])


def made(program: Program, passes: str, target: str | Target | None = None) -> Executable:
    return Executable(compile_program(program, Options(target=target, passes=passes)))


def reference(x: np.ndarray, weight: np.ndarray, low: Pair, high: Pair, groups: int = 1) -> np.ndarray:
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), *zip(low, high, strict=True)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    parts = zip(np.split(windows, groups, 1), np.split(weight.astype("f8"), groups), strict=True)
    return np.maximum(np.concatenate([np.einsum("nchwij,ocij->nohw", *part) for part in parts], 1), 0)


@pytest.mark.covering
@pytest.mark.parametrize("target", [target.name for target in host_targets(features())])
@pytest.mark.parametrize(
    ("channels", "outputs", "sizes", "low", "high"),
    [
        (5, 37, (9, 11), (1, 1), (1, 0)),  # tiles that hang over, and a panel that does
        (3, 64, (8, 4), (1, 1), (1, 1)),  # whole tiles, whole panels
        (1, 1, (3, 1), (0, 1), (0, 2)),  # less than a tile
    ],
)
def test_constant_filters(target: str, channels: int, outputs: int, sizes: Pair, low: Pair, high: Pair) -> None:
    rng = np.random.default_rng(channels)
    weight = rng.standard_normal((outputs, channels, 3, 3), np.float32)
    run = made(convolution(weight, symbol("n"), sizes, low, high), ALWAYS, target)
    for images in (0, 1, 3):
        x = rng.standard_normal((images, channels, *sizes), np.float32)
        want = reference(x, weight, low, high)
        got = run(x)
        assert got.shape == want.shape and got.dtype == np.float32
        assert np.allclose(got, want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max(initial=0)))


@pytest.mark.covering
@pytest.mark.parametrize("target", [target.name for target in host_targets(features())])
@pytest.mark.parametrize(
    ("groups", "channels", "outputs", "sizes"),
    [
        (3, 5, 7, (9, 11)),  # results that fill no panel
        (2, 17, 64, (8, 5)),  # whole panels
        (6, 1, 1, (5, 7)),
    ],
)
def test_groups(target: str, groups: int, channels: int, outputs: int, sizes: Pair) -> None:
    rng = np.random.default_rng(groups)
    weight = rng.standard_normal((groups * outputs, channels, 3, 3), np.float32)
    program = convolution(weight, symbol("n"), sizes, (1, 1), (1, 0), groups)
    run = made(program, ALWAYS, target)
    for images in (0, 1, 3):
        x = rng.standard_normal((images, groups * channels, *sizes), np.float32)
        want, got = reference(x, weight, (1, 1), (1, 0), groups), run(x)
        assert got.shape == want.shape and got.dtype == np.float32
        assert np.allclose(got, want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max(initial=0)))


def test_errors_are_bounded() -> None:
    """Pixels that are all positive, as behind a rectifier: points take away large sums from each other."""
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((32, 64, 3, 3), np.float32)
    x = abs(rng.standard_normal((1, 64, 30, 30), np.float32))
    want = reference(x, weight, (1, 1), (1, 1))
    errors = []
    for passes in (ALWAYS, PLAIN):
        run = made(convolution(weight, 1, (30, 30), (1, 1), (1, 1)), passes)
        errors.append(np.sqrt(np.mean((run(x) - want) ** 2)))
    assert errors[0] <= TIMES * errors[1]


NARROW = with_precision(_with("winograd{always bfloat16 axis=false},pack"), "bfloat16").text
DIRECT = with_precision(_with("pack"), "bfloat16").text

ROUNDED_TIMES = 3
"""The same for bfloat16, whose transformed pixels and filters are rounded: about 2.3 times."""


def narrow(program: Program, passes: str) -> Executable:
    """With the target of AVX512-BF16 in mixed precision."""
    return made(program, passes, replace(TARGETS["avx512bf16"], mixed=True))


@pytest.mark.skipif(TARGETS["avx512bf16"] not in host_targets(features()), reason="no AVX512-BF16")
@pytest.mark.parametrize(
    ("groups", "channels", "outputs", "sizes", "low", "high"),
    [
        (1, 6, 37, (9, 11), (1, 1), (1, 0)),
        (1, 16, 64, (8, 4), (1, 1), (1, 1)),
        (1, 2, 1, (3, 1), (0, 1), (0, 2)),
        (1, 5, 8, (7, 7), (1, 1), (1, 1)),  # pixels without pairs stay
        (1, 32, 8, (16, 16), (1, 1), (1, 1)),  # a spare tile for one image, whose points would share cache sets
        (4, 8, 8, (16, 16), (1, 1), (1, 1)),
        (3, 6, 37, (9, 11), (1, 1), (1, 0)),
        (2, 5, 8, (7, 7), (1, 1), (1, 1)),
    ],
)
@pytest.mark.parametrize("count", ["n", "1"])
def test_bfloat16(count: str, groups: int, channels: int, outputs: int, sizes: Pair, low: Pair, high: Pair) -> None:
    """Beside float64, with two roundings to 2^-9 of terms whose magnitudes the transforms add."""
    rng = np.random.default_rng(channels)
    weight = rng.standard_normal((groups * outputs, channels, 3, 3), np.float32)
    run = narrow(convolution(weight, symbol("n") if count == "n" else 1, sizes, low, high, groups), NARROW)
    for images in (0, 1, 3) if count == "n" else (1,):
        x = rng.standard_normal((images, groups * channels, *sizes), np.float32)
        want, got = reference(x, weight, low, high, groups), run(x)
        assert got.shape == want.shape and got.dtype == np.float32
        assert np.abs(got - want).max(initial=0) <= 2e-2 * np.abs(want).max(initial=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("spare", [0, 3])
def test_split_and_join_with_spare_tiles(dtype: str, spare: int) -> None:
    """With the identity as matrix and tiles side by side, joined tiles are the pixels."""
    identity = tuple(float(i == j) for i in range(3) for j in range(3))
    program = Program.create([("x", TensorType("float32", (2, 5, 7, 3)))])
    with program.building("tiles"):
        x = ops.cast(program.inputs[0], dtype=dtype)
        split = ops.split_tiles(x, matrix=identity, size=3, step=3, low=(0, 0), tiles=(2, 3), spare=spare)
        joined = ops.join_tiles(split, matrix=identity, size=3, batch=2, sizes=(5, 7))
        outputs = [("split", ops.cast(split, dtype="float32")), ("joined", ops.cast(joined, dtype="float32"))]
    run = Executable(compile_program(program.finish(outputs), Options(cache=False)))
    x = np.random.default_rng(6).integers(-99, 99, (2, 5, 7, 3)).astype(np.float32)
    split, joined = run(x)
    assert split.shape == (9, 12 + spare, 3) and np.array_equal(joined, x) and not split[:, 12:].any()
    assert np.array_equal(split[4, :6].reshape(2, 3, 3)[0, :2], x[0, 1, 1:7:3])


@pytest.mark.skipif(TARGETS["avx512bf16"] not in host_targets(features()), reason="no AVX512-BF16")
@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_errors_of_bfloat16_are_bounded(shift: float) -> None:
    """The error of the sums, which are float32 in both forms. Pixels have bfloat16's precision already. With a shift nearly all
    are positive."""
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((32, 64, 3, 3), np.float32)
    x = np.maximum(rng.standard_normal((1, 64, 30, 30), np.float32) + np.float32(shift), 0)
    x = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
    want = reference(x, weight, (1, 1), (1, 1))
    errors = []
    for passes in (NARROW, DIRECT):
        run = narrow(convolution(weight, 1, (30, 30), (1, 1), (1, 1)), passes)
        errors.append(np.sqrt(np.mean((run(x) - want) ** 2)))
    assert 0 < errors[0] <= ROUNDED_TIMES * errors[1]


def test_what_a_microcontroller_holds_keeps_its_filters() -> None:
    """No program is larger for speed in its flash."""
    kept = {name for name, target in TARGETS.items() if "winograd{constants=false}" in CPU(target).pipeline.text}
    assert kept == {"cortex-m4"}


def test_figures_are_those_of_the_vectors() -> None:
    """Of four floats, without multiply-adds, most convolutions pay; what a page fetches has a bound. Moving an element costs as
    many operations as the vectors compute meanwhile."""
    names = ("simd128", "generic", "neon", "avx2", "avx512", "avx512bf16", "amx")
    assert {name: options(TARGETS[name]) for name in names} == {
        "simd128": "{element=4 cached=4 constant=8 largest=262144}",
        "generic": "{element=4 cached=4 constant=8}",
        "neon": "{element=24 cached=10 constant=20 cache=8388608}",
        "avx2": "{element=24 cached=10 constant=20 cache=8388608}",
        "avx512": "{cached=20 cache=8388608}",
        "avx512bf16": "{cached=20 cache=16777216 bfloat16}",
        "amx": "",
    }
    assert options(compact(TARGETS["simd128"])) is None and options(replace(TARGETS["simd128"], exact=True)) is None


def options(target: Target) -> str | None:
    """The options of `winograd` for a target; None if the pass does not run."""
    found = re.search(r"\bwinograd(\{[^}]*\})?,", CPU(target).pipeline.text)
    return None if found is None else found[1] or ""
