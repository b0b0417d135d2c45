"""Depthwise convolutions by tensor cores, and their gradients, against float64, in Triton's interpreter.

BURN_SWEEP=200 adds so many drawn cases, from BURN_SWEEP_SEED on.
"""

from __future__ import annotations

import random as drawing
from collections.abc import Sequence
from dataclasses import replace

import pytest

from burn.codegen.triton import kernels
from burn.codegen.triton.abilities import USUAL_ABILITIES
from burn.codegen.triton.backend import for_options
from burn.codegen.triton.banded import Banded
from burn.codegen.triton.banded_code import emit
from burn.codegen.triton.heuristics.banded import RESULTS, BandBlock, band_block, shapes_of
from burn.codegen.triton.images import compile_all
from burn.codegen.triton.printed import Printed
from burn.dialect import ops
from burn.dialect.program import Program
from burn.options import Options
from burn.runtime.device import Device
from tests.codegen.gpu.sources import HOPPER, sources_of
from tests.codegen.gpu.test_triton_windows import (
    ONE,
    SEEDS,
    TWO,
    Case,
    check_forward,
    check_gradients,
    compiled,
    forward,
)

pytest.importorskip("triton")

SMALL = replace(USUAL_ABILITIES, fragments=True, processors=1)
"""With one processor, tiles walk over many steps."""

MANY = replace(SMALL, processors=132)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Banded]:
    """The kernels that tensor cores compute."""
    found: list[Banded] = []

    def kept(banded: Banded, sites: list[str]) -> Printed:
        found.append(banded)
        return emit(banded, sites)

    monkeypatch.setattr(kernels.banded_code, "emit", kept)
    return found


CASES = {
    "5x5": Case(2, (9, 11), 16, (5, 5), ONE, ONE, TWO, TWO),
    "7x7, channels and tiles that are cut": Case(1, (9, 10), 40, (7, 7), ONE, ONE, (3, 3), (3, 3), "bfloat16"),
    "stride and dilation along the walk": Case(1, (15, 9), 17, (5, 5), (2, 1), (2, 1), (3, 0), (1, 2)),
    "stride 2: six results a step": Case(2, (12, 15), 24, (5, 5), TWO, ONE, TWO, (1, 3)),
    "7x7, stride 2: five results": Case(1, (13, 21), 17, (7, 7), TWO, ONE, (3, 3), (2, 3), "bfloat16"),
    "7x7, dilation 2: four results": Case(1, (15, 14), 16, (7, 7), ONE, TWO, (6, 6), (6, 5)),
    "dilation along the band": Case(1, (7, 13), 16, (9, 3), ONE, (1, 3), (4, 3), (4, 3)),
    "1-D, 31 taps": Case(2, (70,), 24, (31,), (1,), (1,), (15,), (15,)),
    "1-D, dilated": Case(1, (90,), 16, (25,), (1,), (2,), (24,), (3,), "bfloat16"),
    "a single tile": Case(1, (38,), 16, (31,), (1,), (1,), (1,), (3,)),
    "3-D": Case(1, (4, 5, 6), 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "no images": Case(0, (6, 7), 16, (5, 5), ONE, ONE, TWO, TWO),
    "as many images as a call has": Case(3, (6, 7), 16, (5, 5), ONE, ONE, TWO, TWO, named=True),
    "three rows": Case(2, (3, 9), 16, (5, 5), ONE, ONE, TWO, TWO),
    "a multiplier": Case(1, (9, 11), 16, (5, 5), ONE, ONE, TWO, TWO, outputs=2),
}


@pytest.mark.parametrize("name", CASES)
def test_forward(name: str, made: list[Banded]) -> None:
    check_forward(CASES[name], SMALL)
    assert len(made) == 1


def test_an_input_gradient(made: list[Banded]) -> None:
    check_forward(replace(CASES["5x5"], transposed=True, extra=(0, 0)), SMALL)
    assert len(made) == 1


def test_a_transposed_convolution(made: list[Banded]) -> None:
    """Stride 2: every second position of a step is zero, and half of the steps."""
    check_forward(Case(1, (5, 6), 16, (5, 5), TWO, ONE, TWO, TWO, transposed=True, extra=(1, 0)), SMALL)
    assert len(made) == 1


def test_walks() -> None:
    """With 132 processors, three walks of 19 steps over 56 rows are one round of programs. One image has short walks."""

    def block(images: int) -> BandBlock | None:
        return band_block(
            96, 56, lambda n: images * 7 * -(-56 // n), lambda n: n + 6, shapes_of(7, RESULTS, 7), 1, MANY.processors
        )

    assert block(32) == BandBlock(19, 32, 16)
    assert (few := block(1)) is not None and few.walked <= 4
    assert not shapes_of(31, RESULTS, 31)


REFUSED = {
    "float32": replace(CASES["5x5"], dtype="float32"),
    "channels first": replace(CASES["5x5"], last=False),
    "two channels a group": replace(CASES["5x5"], inputs=2),
    "few channels": replace(CASES["5x5"], groups=8),
    "few taps": replace(CASES["5x5"], window=(3, 3)),
    "a band wider than an instruction": replace(CASES["5x5"], strides=(1, 4)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_convolutions(name: str, made: list[Banded]) -> None:
    assert sources_of(forward(REFUSED[name]), SMALL)
    assert not made


def test_exact_options(made: list[Banded]) -> None:
    """A matmul with a banded matrix multiplies infinities by zeros, which `exact` does not allow."""
    backends = [
        for_options(Options(device=Device("cuda"), architecture="sm_90", exact=exact)) for exact in (False, True)
    ]
    for backend in backends:
        assert sources_of(forward(CASES["5x5"]), backend.abilities)
    assert [backend.abilities.banded for backend in backends] == [True, False] and len(made) == 1


def with_prologue(case: Case) -> Program:
    """exp(x) is not zero where x is not loaded; the result has an activation."""

    def function(x: object, w: object) -> list[tuple[object, bool]]:
        return [(ops.tanh(ops.conv(ops.exp(x), w, **case.attrs)), True)]

    return compiled(case, [case.x, case.weight], function)


@pytest.mark.slow
def test_machine_code() -> None:
    programs = [forward(case) for case in CASES.values() if case.batch] + [with_prologue(CASES["5x5"])]
    sources = {s.text: s for program in programs for s in sources_of(program, SMALL) if "mma_v2(" in s.text}
    assert len(sources) >= 8
    assert all(len(image.data) > 500 for image in compile_all(sources.values(), HOPPER))


def drawn(seed: int) -> Case:
    rng = drawing.Random(seed)
    rank = rng.choice((1, 2, 2, 2, 3))

    def each(choices: Sequence[int]) -> tuple[int, ...]:
        return tuple(rng.choice(choices) for _ in range(rank))

    window = each({1: (25, 27, 31), 2: (5, 6, 7), 3: (3, 3)}[rank])
    strides, dilations, low, high = each((1, 1, 1, 2)), each((1, 1, 1, 2)), each((0, 1, 2, 3)), each((0, 1, 2, 3))
    most = {1: 90, 2: 16, 3: 7}[rank]
    sizes = tuple(
        max(rng.randint(1, most), (k - 1) * t + 1 - p - q)
        for k, t, p, q in zip(window, dilations, low, high, strict=True)
    )
    dtype = rng.choice(("float16", "bfloat16"))
    return Case(
        rng.choice((1, 2, 3)), sizes, rng.choice((16, 17, 24, 40)), window, strides, dilations, low, high, dtype,
        named=rng.random() < 0.2,
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(seed: int) -> None:
    abilities = SMALL if seed % 2 else MANY
    check_forward(drawn(seed), abilities)
    if seed % 3 == 2:
        check_gradients(drawn(seed), abilities)
