"""Gradients of convolutions' weights on GPUs with warp specialisation: numbers against float64, the choice of kernels, and that
they compile. On a GPU: tests/gpu/test_windows_gpu.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics import weight_gradient
from burn.codegen.triton.heuristics.preferences import preferences
from burn.codegen.triton.heuristics.sizes import UNKNOWN
from burn.codegen.triton.heuristics.weight_gradient import APART, TILES, PixelTile
from burn.codegen.triton.images import Source, compile_all
from burn.dialect import ops
from burn.dialect.adjoint.contraction import kernel_gradient
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.gpu.sources import HOPPER, SHARED, sources_of, warp_specialised
from tests.kernels.interpreting import interpreted
from tests.passes.cases import random as filled

pytest.importorskip("triton")
gluon = pytest.importorskip("tests.codegen.gpu.gluon_threads")

BACKEND = GPU()
ABILITIES = BACKEND.abilities
ROUNDING = {"float16": 4e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Case:
    """A convolution of channels-last images [batch, *size, channels] with `outputs`."""

    batch: int
    size: tuple[int, int]
    channels: int
    outputs: int
    window: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    padding: tuple[int, int] = (1, 1)
    dtype: str = "bfloat16"

    @property
    def results(self) -> tuple[int, int]:
        each = zip(self.size, self.window, self.padding, strict=True)
        down, across = ((d + 2 * p - self.dilation * (k - 1) - 1) // self.stride + 1 for d, k, p in each)
        return down, across

    def program(self) -> Program:
        shapes = ((self.batch, *self.size, self.channels), (self.batch, *self.results, self.outputs))
        made = Program.create(list(zip(("x", "g"), (TensorType(self.dtype, shape) for shape in shapes), strict=True)))
        with made.building("node"):
            x, g = (ops.transpose(v, permutation=(0, 3, 1, 2)) for v in made.inputs)
            steps, dilations = (self.stride,) * 2, (self.dilation,) * 2
            found: Any = kernel_gradient(g, x, self.window, steps, self.padding, self.padding, dilations, 1)
        made.finish([("w", found)])
        return made

    def wanted(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """In float64."""
        padded = np.pad(x.astype(np.float64), ((0, 0), *((p, p) for p in self.padding), (0, 0)))
        found = np.zeros((self.outputs, self.channels, *self.window))
        for tap in np.ndindex(*self.window):
            at = (
                slice(t * self.dilation, t * self.dilation + (e - 1) * self.stride + 1, self.stride)
                for t, e in zip(tap, self.results, strict=True)
            )
            under = padded[(slice(None), *at)].reshape(-1, self.channels)
            found[(slice(None), slice(None), *tap)] = g.reshape(-1, self.outputs).astype(np.float64).T @ under
        return found

    def check(self, processors: int = 5) -> int:
        """Compares the numbers, and returns the number of warp-specialised kernels. With few processors, small problems have
        whole tiles, shares of tiles, and parts without a program."""
        made = self.program()
        abilities = replace(ABILITIES, processors=processors)
        chosen = preferences(UNKNOWN, abilities)
        pipeline.run(pipeline.parse(GPU().pipeline.text), made, Environment(BACKEND.session(made)))
        x, g = (np.asarray(filled(t, {}, i)) for i, t in enumerate(made.input_types))
        simulator = gluon.GluonSimulator(abilities)
        (got,) = interpreted(made, [x, g], simulator.launch, chosen)
        want, bound = self.wanted(x, g), ROUNDING[self.dtype]
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=bound, atol=bound * np.abs(want).max())
        return simulator.specialised


def only(monkeypatch: pytest.MonkeyPatch, tiles: Sequence[PixelTile], apart: Sequence[PixelTile] = APART) -> None:
    """Every weight's gradient is warp-specialised, with one of these tiles."""
    monkeypatch.setattr(weight_gradient, "TILES", tuple(tiles))
    monkeypatch.setattr(weight_gradient, "APART", tuple(apart))
    monkeypatch.setattr(weight_gradient, "WORTH", float("inf"))


CASES = {
    "a ring": Case(2, (9, 8), 16, 24),
    "odd sizes": Case(33, (5, 7), 24, 8, dtype="float16"),
    "two rows": Case(3, (2, 9), 8, 16),
    "without padding": Case(3, (7, 13), 8, 72, padding=(0, 0)),
    "stride 2": Case(2, (9, 11), 16, 8, stride=2),
    "stride 3, without padding": Case(1, (13, 13), 8, 8, stride=3, padding=(0, 0)),
    "dilation 2": Case(2, (10, 7), 8, 16, dilation=2, padding=(2, 2)),
    "dilation 2, stride 2": Case(2, (11, 9), 8, 16, stride=2, dilation=2, padding=(2, 2)),
    "5x5": Case(1, (6, 8), 16, 8, window=(5, 5), padding=(2, 2)),
    "a row of taps": Case(2, (3, 8), 16, 8, window=(1, 5), padding=(0, 2)),
    "a column of taps": Case(2, (8, 3), 16, 8, window=(5, 1), padding=(2, 0)),
    "2x2, stride 2": Case(2, (6, 10), 8, 16, window=(2, 2), stride=2, padding=(0, 0)),
    "1x1, stride 2": Case(2, (6, 10), 8, 16, window=(1, 1), stride=2, padding=(0, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, TILES)
    assert CASES[name].check() == 1


@pytest.mark.parametrize("number", range(len(TILES)))
@pytest.mark.parametrize(
    "processors", [3, pytest.param(7, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.slow)]
)
def test_every_tile(number: int, processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, TILES[number : number + 1], APART[min(number, len(APART) - 1) :][:1])
    assert Case(3, (6, 4), 72, 136).check(processors) == 1
    assert Case(2, (7, 9), 72, 136, stride=2).check(processors) == 1


def specialised(case: Case) -> list[Source]:
    """The warp-specialised kernels of a weight's gradient."""
    return [
        source
        for source in warp_specialised(sources_of(case.program(), ABILITIES, backend=BACKEND))
        if "sum_windows(" in source.text
    ]


def source(case: Case) -> Source:
    (found,) = specialised(case)
    return found


CHOSEN = {
    "64 channels at 224x224": (Case(32, (224, 224), 64, 64), (True, True, 3, 64)),
    "512 channels at 28x28": (Case(32, (28, 28), 512, 512, dtype="float16"), (True, True, 3, 64)),
    "128 outputs, stride 2": (Case(32, (56, 56), 256, 128, stride=2), (False, True, 2, 128)),
}
"""And if groups have neighbouring rows of the window, if parts are even, the groups, and the outputs of a block."""


@pytest.mark.parametrize("name", CHOSEN)
def test_they_compile(name: str) -> None:
    case, chosen = CHOSEN[name]
    found = source(case)
    named = dict(found.named)
    assert (named["RING"], named["EVEN"], named["GROUPS"], named["OUTPUTS"]) == chosen
    (image,) = compile_all([found], HOPPER)
    assert image.shared <= SHARED


@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.slow
def test_every_tile_compiles(ring: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for tile in TILES if ring else APART:
        only(monkeypatch, [tile], [tile])
        (image,) = compile_all([source(Case(32, (29, 28), 512, 512, stride=1 if ring else 2))], HOPPER)
        assert image.shared <= SHARED


OTHERS = {
    "no images": Case(0, (56, 56), 64, 64),
    "few pixels": Case(1, (7, 7), 64, 64),
    "three channels": Case(32, (224, 224), 3, 64),
    "rows that are no multiples of 16 bytes": Case(32, (56, 56), 60, 64),
    "float32": Case(32, (56, 56), 64, 64, dtype="float32"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_which_are_not_specialised(name: str) -> None:
    assert not specialised(OTHERS[name])


def test_an_image_is_not_padded_by_a_kernel() -> None:
    """A kernel for the weight's gradient, one that adds its parts, and one that stores the result in PyTorch's order."""
    assert len(sources_of(Case(32, (56, 56), 64, 64).program(), ABILITIES, backend=BACKEND)) == 3
