"""Transposed convolutions whose phases are interleaved, beside sums in float64.

BURN_SWEEP=300 draws so many, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.heuristics import preferences
from burn.codegen.cpu.target import find
from burn.dialect.contraction import Conv
from burn.dialect.types import TensorType
from burn.passes.environment import Environment
from burn.passes.interleave_phases import InterleavePhases
from burn.tensors import Tensor
from burn.tracing.trace import trace
from tests.codegen.cpus import FLOAT_TARGETS

SWEEP = int(os.environ.get("BURN_SWEEP", "6"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))

Row = tuple[int, ...]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Also rewrites small images, most of whose results are cropped."""
    monkeypatch.setattr(preferences, "ADDED", 1 << 20)
    preferences.preferences_of.cache_clear()
    yield
    preferences.preferences_of.cache_clear()


@dataclass(frozen=True)
class Case:
    """A transposed convolution of `groups` with so many input and output channels each."""

    inputs: int
    outputs: int
    groups: int
    sizes: Row
    kernel: Row
    strides: Row
    dilations: Row
    low: Row
    high: Row
    extra: Row

    @property
    def lengths(self) -> list[int]:
        """The result's sizes."""
        rows = zip(self.sizes, self.kernel, self.strides, self.dilations, self.low, self.high, self.extra, strict=True)
        return [(d - 1) * s + e + (k - 1) * t + 1 - p - q for d, k, s, t, p, q, e in rows]

    def operands(self, batch: int = 2) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(len(self.sizes) + self.inputs)
        x = rng.standard_normal((batch, self.groups * self.inputs, *self.sizes), np.float32)
        return x, rng.standard_normal((self.groups * self.inputs, self.outputs, *self.kernel), np.float32)

    def expected(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Adds each element times the kernel at its position."""
        whole = [n + p + q for n, p, q in zip(self.lengths, self.low, self.high, strict=True)]
        total = np.zeros((len(x), self.groups, self.outputs, *whole))
        x = x.astype("f8").reshape(len(x), self.groups, self.inputs, *self.sizes)
        weight = weight.astype("f8").reshape(self.groups, self.inputs, self.outputs, *self.kernel)
        for tap in np.ndindex(*self.kernel):
            rows = zip(tap, self.dilations, self.sizes, self.strides, strict=True)
            at = tuple(slice(i * t, i * t + (d - 1) * s + 1, s) for i, t, d, s in rows)
            terms = np.einsum("ngc...,gco->ngo...", x, weight[(slice(None), slice(None), slice(None), *tap)])
            total[(slice(None), slice(None), slice(None), *at)] += terms
        ends = (slice(p, n - q) for p, q, n in zip(self.low, self.high, whole, strict=True))
        return total.reshape(len(x), self.groups * self.outputs, *whole)[(slice(None), slice(None), *ends)]

    def result(self, x: Tensor, weight: Tensor) -> Tensor:
        return ops.conv_transpose(
            x, weight, strides=self.strides, dilations=self.dilations, low=self.low, high=self.high, extra=self.extra,
            groups=self.groups,
        )  # fmt: skip


def plain(inputs: int, outputs: int, sizes: Row, kernel: Row, strides: Row, low: Row, high: Row) -> Case:
    """Without groups, dilation and extra rows."""
    ones = (1,) * len(sizes)
    return Case(inputs, outputs, 1, sizes, kernel, strides, ones, low, high, (0,) * len(sizes))


CASES: dict[str, tuple[Case, int, int]] = {
    "phases with as many taps": (plain(5, 8, (7, 9), (5, 5), (4, 4), (2, 2), (2, 2)), 8, 8),
    "zeros in the kernel": (plain(16, 3, (6, 5), (3, 3), (2, 2), (1, 1), (1, 1)), 1, 4),
    "outputs that fill vectors": (plain(8, 64, (4, 3), (3, 3), (2, 2), (1, 0), (0, 1)), 4, 4),
    "phases without taps": (plain(4, 8, (5, 6), (3, 3), (4, 4), (1, 1), (1, 1)), 1, 1),
    "more phases without taps than convolutions may be": (
        plain(3, 9, (5, 6, 4), (2, 2, 1), (4, 4, 3), (0, 1, 0), (0, 0, 0)),
        1,
        1,
    ),
    "a phase without taps between others": (Case(4, 3, 1, (6,), (2,), (4,), (3,), (0,), (0,), (0,)), 2, 2),
    "all phases alike": (plain(7, 5, (11,), (8,), (4,), (2,), (2,)), 1, 1),
    "cropped by more than the reach": (plain(3, 2, (9,), (3,), (2,), (5,), (4,)), 1, 2),
    "three axes": (plain(3, 8, (2, 3, 4), (3, 2, 3), (2, 1, 2), (1, 0, 1), (0, 1, 1)), 2, 4),
    "groups": (Case(3, 2, 3, (5, 4), (5, 3), (3, 2), (1, 1), (2, 1), (1, 1), (1, 1)), 6, 6),
    "groups whose phases are neighbours": (
        Case(4, 12, 3, (5, 4), (4, 2), (2, 4), (1, 1), (1, 0), (1, 1), (0, 1)),
        1,
        1,
    ),
    "depthwise": (Case(1, 1, 17, (5, 6), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0)), 4, 4),
    "dilated": (Case(4, 3, 1, (6, 5), (3, 4), (2, 3), (2, 2), (1, 3), (2, 1), (0, 1)), 3, 3),
}
"""The convolutions that are left with zeros in kernels, and without."""


def drawn(rng: random.Random) -> Case:
    while True:
        n, groups = rng.choice((1, 2, 2, 3)), rng.choice((1, 1, 1, 2, 5))

        def row(*numbers: int, n: int = n) -> Row:
            return tuple(rng.choice(numbers) for _ in range(n))

        sizes, kernel, strides = row(1, 2, 3, 7, 11), row(1, 2, 3, 4, 5, 7), row(1, 2, 3, 4)
        dilations = row(1, 1, 2, 3) if rng.random() < 0.4 else (1,) * n
        low = tuple(rng.randrange((k - 1) * t + 2) for k, t in zip(kernel, dilations, strict=True))
        high = tuple(rng.randrange((k - 1) * t + 2) for k, t in zip(kernel, dilations, strict=True))
        extra = tuple(rng.randrange(max(s, t)) for s, t in zip(strides, dilations, strict=True))
        channels = rng.choice((1, 2, 7)), rng.choice((1, 3, 8, 17))
        case = Case(*channels, groups, sizes, kernel, strides, dilations, low, high, extra)
        if min(case.lengths) > 0:
            return case


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.usefixtures("always")
@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", [case for case, *_ in CASES.values()], ids=CASES)
def test_results(case: Case, target: str) -> None:
    x, weight = case.operands()
    got = burn.compile(partial(case.result, weight=burn.tensor(weight)), [x], target=target, cache=False)(x)
    close(np.asarray(got), case.expected(x, weight))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(SEED, SEED + SWEEP))
def test_drawn(seed: int) -> None:
    case = drawn(random.Random(seed))
    x, weight = case.operands()
    close(np.asarray(burn.compile(case.result, [x, weight], cache=False)(x, weight)), case.expected(x, weight))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, zeros: bool) -> None:
    case, padded, exact = CASES[name]
    x, weight = (TensorType("float32", a.shape) for a in case.operands())
    program = trace(case.result, {"x": x, "weight": weight})
    backend = CPU(replace(find("avx512"), exact=not zeros))
    assert InterleavePhases().run(program, Environment(backend)) == {"interleaved": 1}
    assert sum(isinstance(operation.opview, Conv) for operation in program.block.operations) == (
        padded if zeros else exact
    )


def test_other_targets_keep_it() -> None:
    case = CASES["groups"][0]
    x, weight = (TensorType("float32", a.shape) for a in case.operands())
    assert InterleavePhases().run(trace(case.result, {"x": x, "weight": weight})) == {"interleaved": 0}


def test_many_outputs_keep_the_general_decomposition() -> None:
    """They fill vectors, and four phases are added as fast as they are interleaved."""
    case = plain(64, 128, (17, 17), (4, 4), (2, 2), (1, 1), (1, 1))
    x, weight = (TensorType("float32", a.shape) for a in case.operands())
    program = trace(case.result, {"x": x, "weight": weight})
    assert InterleavePhases().run(program, Environment(CPU(find("avx512")))) == {"interleaved": 0}


@pytest.mark.usefixtures("always")
def test_open_sizes() -> None:
    """With 0 images, and 0 elements along an axis."""
    case = CASES["phases with as many taps"][0]
    _, weight = case.operands()
    x = np.zeros((1, case.inputs, 4, 4), np.float32)
    function = partial(case.result, weight=burn.tensor(weight))
    run = burn.compile(function, [x], {0: {0: "n", 2: "height", 3: "width"}}, cache=False)
    for batch, *sizes in ((2, 7, 9), (0, 3, 3), (1, 1, 2)):
        given = replace(case, sizes=tuple(sizes))
        x, _ = given.operands(batch)
        close(np.asarray(run(x)), given.expected(x, weight))


@pytest.mark.usefixtures("always")
def test_gradient_of_a_strided_convolution() -> None:
    """Its input's gradient is a transposed convolution of the result's cotangent."""
    case = plain(6, 8, (4, 5), (3, 3), (2, 2), (1, 1), (0, 1))
    cotangent, weight = case.operands()
    image = np.random.default_rng(1).standard_normal((2, case.outputs, *case.lengths), np.float32)
    options = {"strides": case.strides, "dilations": (1, 1), "low": case.low, "high": case.high}

    def loss(image: Tensor, weight: Tensor, cotangent: Tensor) -> Tensor:
        return (ops.conv(image, weight, **options) * cotangent).sum()

    close(np.asarray(burn.jit(burn.grad(loss))(image, weight, cotangent)), case.expected(cotangent, weight))


@pytest.mark.usefixtures("always")
def test_exact_sums_have_no_zeros() -> None:
    """No result sums an element that its phase does not read."""
    case = CASES["zeros in the kernel"][0]
    x, weight = case.operands()
    x[0, 0, 3, 2] = np.inf
    got = burn.compile(partial(case.result, weight=burn.tensor(weight)), [x], exact=True, cache=False)(x)
    with np.errstate(invalid="ignore"):
        want = case.expected(x, weight)
    np.testing.assert_array_equal(np.isfinite(np.asarray(got)), np.isfinite(want))
    assert np.isfinite(want).mean() > 0.9
