"""Gradients of depthwise convolutions' weights by tensor cores against float64, in Triton's interpreter.

BURN_SWEEP=200 adds so many drawn cases, from BURN_SWEEP_SEED on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton import kernels
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.depthwise_gradient import DepthwiseGradient
from burn.codegen.triton.depthwise_gradient_code import emit, shared_bases
from burn.codegen.triton.heuristics.depthwise_gradient import TILES, GradientBlock, Work, gradient_block, registers
from burn.codegen.triton.heuristics.preferences import preferences
from burn.codegen.triton.images import compile_all
from burn.codegen.triton.printed import Printed
from burn.dialect import ops
from burn.dialect.adjoint.contraction import conv as gradients
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.gpu import simulated
from tests.codegen.gpu.sources import HOPPER, SHARED, sources_of
from tests.codegen.gpu.test_banded import CASES, drawn
from tests.codegen.gpu.test_triton_windows import (
    ONE,
    SEEDS,
    TWO,
    Case,
    check_gradients,
    compiled,
    convolved,
    near,
    stored,
    to_first,
    wide,
)
from tests.kernels.interpreting import interpreted
from tests.passes.cases import random

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

SMALL = replace(USUAL_ABILITIES, fragments=True, processors=2, memory=SHARED)
MANY = replace(SMALL, processors=132)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[DepthwiseGradient]:
    """The kernels that tensor cores compute."""
    found: list[DepthwiseGradient] = []

    def kept(gradient: DepthwiseGradient, sites: list[str]) -> Printed:
        found.append(gradient)
        return emit(gradient, sites)

    monkeypatch.setattr(kernels.depthwise_gradient_code, "emit", kept)
    return found


GRADIENTS = {
    name: case for name, case in CASES.items() if case.groups % 8 == 0 and case.outputs == 1 and case.batch
} | {
    "3x3": Case(3, (9, 10), 24, (3, 3), ONE, ONE, ONE, ONE),
    "3x3, stride 2": Case(2, (11, 13), 40, (3, 3), TWO, ONE, ONE, (1, 0), "bfloat16"),
    "rows at a distance": Case(1, (14, 12), 16, (3, 3), ONE, (3, 2), (3, 2), (3, 2)),
    "strides and distances of rows": Case(1, (19, 12), 16, (3, 3), (2, 1), (3, 1), (0, 1), (3, 1)),
    "no padding": Case(2, (8, 9), 16, (3, 5), ONE, ONE, (0, 0), (0, 0)),
    "one axis of two": Case(2, (5, 20), 16, (1, 7), ONE, ONE, (0, 3), (0, 3)),
    "windows that reach over an image": Case(2, (2, 3), 16, (5, 5), ONE, ONE, (3, 2), (2, 3)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, made: list[DepthwiseGradient]) -> None:
    check_gradients(GRADIENTS[name], SMALL)
    assert len(made) == 1


def test_several_rounds(made: list[DepthwiseGradient]) -> None:
    """A batch whose size is not known may have more tiles than the programs were chosen for."""
    check_gradients(Case(70, (5, 6), 16, (3, 3), ONE, ONE, ONE, ONE, named=True), SMALL)
    (gradient,) = made
    assert gradient.block.shares * TILES < 70


def test_programs_of_every_processor(made: list[DepthwiseGradient]) -> None:
    check_gradients(replace(GRADIENTS["3x3"], batch=8), MANY)
    (gradient,) = made
    assert gradient.block.shares > 1


FIRST = {
    "results of two tiles": (GRADIENTS["3x3"], (7, 16)),
    "5x5": (replace(GRADIENTS["5x5"], dtype="bfloat16"), (9, 8)),
    "1-D": (GRADIENTS["1-D, 31 taps"], (48,)),
}


def check_results_first(case: Case) -> None:
    """The weight's gradient if the image is channels-last, and the cotangent channels-first."""
    types = [TensorType(case.dtype, shape) for shape in (stored(case.x, True), case.weight, case.y)]
    program = Program.create(list(zip("xwg", types, strict=True)))
    with program.building("node"):
        x, w, g = program.inputs
        x = ops.transpose(x, permutation=to_first(len(case.x)))
        attrs = (case.strides, case.dilations, case.low, case.high, case.groups)
        found: Any = gradients(g, ops.conv(x, w, **case.attrs), x, w, *attrs, "first", None, None)
    program.finish([("weight", found[1])])
    own = preferences({}, SMALL)
    given = [np.asarray(random(t, {}, i)) for i, t in enumerate(types)]
    back_end = GPU().session(program)
    pipeline.run(pipeline.parse(back_end.pipeline.text), program, Environment(back_end))
    got = interpreted(program, given, simulated.Simulator(SMALL).launch, own)
    w = wide(case, given[1], False).requires_grad_()
    cotangent = wide(case, given[2], False)
    (want,) = torch.autograd.grad(convolved(case, wide(case, given[0], True), w), (w,), cotangent)
    near(got[0], want, case, False)


@pytest.mark.parametrize("name", FIRST)
def test_a_cotangent_that_is_channels_first(name: str, made: list[DepthwiseGradient]) -> None:
    case, sizes = FIRST[name]
    check_results_first(replace(case, sizes=sizes))
    (gradient,) = made
    assert gradient.results_first


def test_a_cotangent_whose_rows_are_not_aligned(made: list[DepthwiseGradient]) -> None:
    check_results_first(replace(GRADIENTS["3x3"], sizes=(7, 12)))
    assert not made


REFUSED = {
    "float32": replace(GRADIENTS["3x3"], dtype="float32"),
    "channels first": replace(GRADIENTS["3x3"], last=False),
    "two channels a group": replace(GRADIENTS["3x3"], inputs=2),
    "a multiplier": replace(GRADIENTS["3x3"], outputs=2),
    "few channels": replace(GRADIENTS["3x3"], groups=8),
    "channels that are not aligned": replace(GRADIENTS["3x3"], groups=20),
    "a window wider than an instruction": replace(GRADIENTS["3x3"], sizes=(9, 30), window=(3, 9), strides=(1, 4)),
}


def gradient(case: Case) -> Program:
    """The weight's gradient alone."""

    def function(x: Any, w: Any, g: Any) -> Any:
        y = ops.conv(x, w, **case.attrs)
        attrs = (case.strides, case.dilations, case.low, case.high, case.groups)
        found: Any = gradients(g, y, x, w, *attrs, "first", None, None)
        return [(found[1], False)]

    return compiled(case, [case.x, case.weight, case.y], function)


@pytest.mark.parametrize("name", REFUSED)
def test_others(name: str, made: list[DepthwiseGradient]) -> None:
    assert sources_of(gradient(REFUSED[name]), SMALL)
    assert not made


def test_exact_options(made: list[DepthwiseGradient]) -> None:
    """Zeros stand for rows outside of an image: they may not meet infinities."""
    assert sources_of(gradient(GRADIENTS["3x3"]), replace(SMALL, banded=False))
    assert not made


def work(channels: int, size: int, window: int, stride: int = 1) -> Work:
    """Of 32 square images."""
    results = min(8, (16 - window) // stride + 1)
    steps = -(-size // stride)
    held = (window - 1) // stride + 1
    tiles = 32 * -(-steps // results)
    needed = (results - 1) * stride + window
    return Work(channels, 1, tiles, steps, window, 8, stride, needed, held, window * window)


@pytest.mark.parametrize(
    ("channels", "size", "window", "stride"), [(96, 56, 7, 1), (192, 28, 7, 1), (144, 56, 3, 1), (144, 56, 5, 2)]
)
def test_blocks(channels: int, size: int, window: int, stride: int) -> None:
    """Most processors have one program, and none has two."""
    block = gradient_block(work(channels, size, window, stride), 132, SHARED)
    assert block is not None
    assert 84 <= block.shares * -(-channels // block.channels) <= 132


def test_registers() -> None:
    """A thread with too many sums has two channels instead of four."""
    large = replace(work(64, 56, 7), matrices=9, held=9)
    assert registers(large, 4) > 264
    block = gradient_block(large, 132, SHARED)
    assert block is not None and block.each == 2
    assert gradient_block(replace(large, matrices=31, held=31), 132, SHARED) is None


@pytest.mark.parametrize("vector", [4, 8])
@pytest.mark.parametrize(("channels", "warps"), [(32, 8), (16, 4), (32, 16)])
@pytest.mark.parametrize("length", [8, 16])
def test_banks(vector: int, channels: int, warps: int, length: int) -> None:
    """Addresses are distinct, and the threads of a load read different banks as far as copies allow it."""
    block = GradientBlock(channels, warps, 4, 8, 1, vector)
    layout = simulated.SharedLayout(shared_bases(block, length, True))
    order = layout.order((TILES, length, channels))
    addresses = {int(at): address for address, at in enumerate(order)}
    size = 8 * 16 // (2 * block.each)  # threads that load 128 bytes
    threads = [(t, p) for p in range(8) for t in range(0, 8, 2)][:size]
    banks = {addresses[(t * length + p) * channels] * 2 % 128 // (2 * block.each) for t, p in threads}
    assert len(banks) == size * block.each // vector


@pytest.mark.slow
def test_machine_code() -> None:
    """Sixteen bytes at a time are copied, also of channels that do not fill a program."""
    abilities = Abilities.of("cuda", "sm_90")
    names = ("3x3", "3x3, stride 2", "7x7, channels and tiles that are cut", "1-D, 31 taps", "rows at a distance")
    sources = [s for n in names for s in sources_of(gradient(GRADIENTS[n]), abilities) if "async_copy" in s.text]
    assert len(sources) == len(names)
    assert all(len(image.data) > 500 for image in compile_all(sources, HOPPER))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(seed: int) -> None:
    case = drawn(seed)
    check_gradients(replace(case, groups=-(-case.groups // 8) * 8), SMALL if seed % 2 else MANY)
