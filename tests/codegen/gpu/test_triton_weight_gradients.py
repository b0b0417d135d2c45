"""Gradients of convolutions' weights: their numbers in Triton's interpreter, and into how many parts their depth is split."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.matmul import split_count
from burn.codegen.triton.heuristics.preferences import PREFERENCES
from burn.dialect import ops
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import ContractionKernel
from burn.kernels.builders import kernels
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")

ROUNDING = {"float16": 4e-3, "bfloat16": 2e-2}
HOPPER = Abilities.of("cuda", "sm_90")

Choose = Callable[[ContractionKernel, Sequence[int]], int]


@dataclass(frozen=True)
class Case:
    """The gradient of the weight [window.., channels, outputs] of a convolution without padding, whose result has these
    `sizes`. Tensors are channels-last."""

    batch: int
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    channels: int
    outputs: int
    dtype: str = "float16"

    def program(self) -> Program:
        x = (self.batch, *(e + k - 1 for e, k in zip(self.sizes, self.window, strict=True)), self.channels)
        types = [TensorType(self.dtype, shape) for shape in (x, (self.batch, *self.sizes, self.outputs))]
        made = Program.create(list(zip(("x", "g"), types, strict=True)))
        ones, summed = (1,) * len(self.sizes), tuple(range(len(self.sizes) + 1))
        with made.building("node"):
            under = ops.windows(made.inputs[0], axis=1, window=self.window, strides=ones, dilations=ones)
            found = ops.dot_general(under, made.inputs[1], lhs_contract=summed, rhs_contract=summed)
        made.finish([("w", found)])
        pipeline.run(pipeline.parse("decompose{keep=windows},fuse"), made, Environment(GPU()))
        return made

    def wanted(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """In float64."""
        found = np.zeros((*self.window, self.channels, self.outputs))
        for tap in np.ndindex(*self.window):
            at = (slice(t, t + e) for t, e in zip(tap, self.sizes, strict=True))
            under = x[(slice(None), *at)].reshape(-1, self.channels).astype(np.float64)
            found[tap] = under.T @ g.reshape(-1, self.outputs).astype(np.float64)
        return found

    def parts(self) -> int:
        """The number of parts on Hopper."""
        chosen: list[int] = []

        def choose(kernel: ContractionKernel, counts: Sequence[int]) -> int:
            chosen.append(split_count(kernel, counts, abilities=HOPPER))
            return chosen[-1]

        made = self.program()
        with context():
            for group in groups(made.block):
                kernels(group, replace(PREFERENCES, split_depth=choose))
        (count,) = chosen
        return count


def exactly(count: int) -> Choose:
    def choose(kernel: ContractionKernel, counts: Sequence[int]) -> int:
        assert count == 1 or count in counts
        return count

    return choose


CASES = {
    "whole": (Case(2, (19, 18), (3, 3), 8, 16), 1),
    "3 parts of 10 images": (Case(10, (5, 7), (3, 2), 24, 17, "bfloat16"), 3),
    "5 parts of 26 images": (Case(26, (3, 5), (2, 3), 24, 19), 5),
    "3 parts of rows": (Case(1, (11, 19), (3, 3), 13, 24), 3),
    "3-D": (Case(2, (3, 5, 17), (2, 1, 2), 24, 25), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    case, count = CASES[name]
    made = case.program()
    x, g = (np.asarray(random(t, {}, i)) for i, t in enumerate(made.input_types))
    simulator = simulated.Simulator()
    (got,) = interpreted(made, [x, g], simulator.launch, replace(PREFERENCES, split_depth=exactly(count)))
    assert len(simulator.printer.functions) == 1 + (count > 1)
    want, bound = case.wanted(x, g), ROUNDING[case.dtype]
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=bound, atol=bound * np.abs(want).max())


def test_positions_are_divided_by_constants() -> None:
    """A division by an argument takes about 20 instructions, in each step and for each position of a thread."""
    case, _ = CASES["whole"]
    simulator = simulated.Simulator()
    made = case.program()
    arrays = [np.asarray(random(t, {}, i)) for i, t in enumerate(made.input_types)]
    interpreted(made, arrays, simulator.launch, replace(PREFERENCES, split_depth=None))
    (text,) = (printed.text for printed in simulator.printer.functions.values())
    steps = text[text.index("for start") : text.index("tl.dot(")]
    assert {int(n) for n in re.findall(r"k\d+ (?:%|//) (\d+)", steps)} == {18}
    assert re.search(r"k\d+ (?:%|//) _", steps) is None


def test_few_results_are_more_than_128_parts() -> None:
    """A program for each processor would wait for its loads."""
    assert Case(32, (224, 224), (3, 3), 3, 64).parts() > 128


def test_a_kernel_that_cannot_be_printed_is_no_alternative() -> None:
    """Warp-specialised kernels multiply matrices: pixels under windows are none. 72 tiles would leave 60 processors idle."""
    assert Case(32, (28, 28), (3, 3), 512, 512).parts() == 3
