"""Weight gradients of convolutions with much padding: taps apart, beside sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS
from burn.codegen.pipeline import with_precision
from burn.compiler import executable
from burn.dialect.contraction import DotGeneral
from burn.dialect.convolution import Windows
from burn.dialect.dims import evaluate
from burn.dialect.pointwise import Cast
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import type_of
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.passes.gradient_taps import GradientTaps, runs
from burn.tensors import Tensor
from burn.tracing.trace import trace
from tests.passes.splitting import splitting

# sizes, kernel, strides, dilations, low, high
CASES = [
    ((16, 16), (3, 3), (1, 1), (12, 12), (12, 12), (12, 12)),
    ((16, 9), (3, 3), (1, 1), (24, 2), (24, 2), (24, 2)),  # the outer rows read padding alone
    ((7, 11), (3, 4), (2, 3), (5, 3), (6, 0), (7, 11)),
    ((5, 1), (5, 3), (1, 1), (1, 1), (2, 1), (2, 1)),
    ((13,), (4,), (3,), (7,), (1,), (20,)),
    ((3, 4, 5), (3, 2, 3), (1, 2, 1), (3, 1, 4), (3, 1, 4), (3, 0, 4)),
]


def expected(x: np.ndarray, g: np.ndarray, kernel, strides, dilations, low, high) -> np.ndarray:
    """[o, c, k..]: the sum over batch and outputs of the cotangent times the elements under each tap."""
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), *zip(low, high, strict=True)))
    found = np.zeros((g.shape[1], x.shape[1], *kernel))
    for tap in np.ndindex(*kernel):
        rows = zip(tap, dilations, strides, g.shape[2:], strict=True)
        under = padded[(slice(None), slice(None), *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in rows))]
        found[(slice(None), slice(None), *tap)] = np.tensordot(g.astype("f8"), under, ((0, *range(2, g.ndim)),) * 2)
    return found


def traced(case: Any, batch: Any = 2, dtype: str = "float32") -> tuple[Program, dict[str, Any], tuple[int, ...]]:
    """The weight's gradient, given x and the cotangent g, and the derivative of its sum with `direction` by g."""
    sizes, kernel, strides, dilations, low, high = case
    options = {"strides": strides, "dilations": dilations, "low": low, "high": high}
    rows = zip(sizes, kernel, strides, dilations, low, high, strict=True)
    outputs = tuple((d + a + b - (k - 1) * t - 1) // s + 1 for d, k, s, t, a, b in rows)

    def both(x: Tensor, g: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        def gradient(g: Tensor) -> Tensor:
            return burn.vjp(lambda w: ops.conv(x, w, **options), weight)[1](g)[0]

        return gradient(g), burn.vjp(gradient, g)[1](weight)[0]

    shapes = {"x": (batch, 3, *sizes), "g": (batch, 5, *outputs), "weight": (5, 3, *kernel)}
    types = {name: f"{dtype}[{', '.join(map(str, shape))}]" for name, shape in shapes.items()}
    return trace(both, types), options, outputs


def prepared(program: Program) -> Program:
    pipeline.run(pipeline.parse("simplify,decompose{keep=attention+windows},simplify"), program)
    return program


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "named batch"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case: Any, named: bool) -> None:
    """Also the derivative of the gradient, in a direction of the weight's cotangent."""
    sizes, kernel, strides, dilations, low, high = case
    program, options, outputs = traced(case, "n" if named else 2)
    assert GradientTaps().run(prepared(program), splitting())["split"] >= 1
    rng = np.random.default_rng(0)
    x, g, direction = (
        rng.standard_normal(shape, np.float32) for shape in ((2, 3, *sizes), (2, 5, *outputs), (5, 3, *kernel))
    )
    got, second = executable(program)(x, g, direction)
    np.testing.assert_allclose(got, expected(x, g, kernel, strides, dilations, low, high), rtol=1e-5, atol=1e-4)
    # the gradient is linear in g, and its derivative is the convolution with the direction
    forward = ops.conv(burn.tensor(x), burn.tensor(direction), **options)
    np.testing.assert_allclose(second, np.asarray(forward), rtol=1e-5, atol=1e-4)


def outputs_of(program: Program) -> list[int]:
    """Of each weight gradient the number of cotangents that it reads."""
    dots = [op.opview for op in program.block.operations if isinstance(op.opview, DotGeneral)]
    under = [op.x if isinstance(op := op_of(dot.lhs), Cast) else dot.lhs for dot in dots]
    pairs = zip(dots, under, strict=True)
    found = [dot for dot, lhs in pairs if isinstance(op_of(lhs), Windows) and 0 in dot.lhs_contract]
    return sorted(evaluate(type_of(dot.rhs).elements, {}) for dot in found)


def test_taps_are_apart_if_that_saves_much() -> None:
    assert runs(16, 16, 3, 1, 12, 12) == [((0, 1), (12, 4)), ((1, 1), (0, 16)), ((2, 1), (0, 4))]
    assert runs(16, 16, 3, 1, 24, 24) == [((0, 1), (0, 0)), ((1, 1), (0, 16)), ((2, 1), (0, 0))]
    work, whole = 2 * 5 * 3 * 16**2 * 3**2, 2 * 5 * 16**2
    program = prepared(traced(CASES[0])[0])
    for least in ((0.51, 0), (0.3, work)):
        assert GradientTaps().run(program, splitting(*least)) == {"split": 0}
    assert GradientTaps().run(program) == {"split": 0}
    assert outputs_of(program) == [whole]
    along_one_axis = program.copy()
    assert GradientTaps().run(along_one_axis, splitting(0.3, work // 4)) == {"split": 1}
    assert outputs_of(along_one_axis) == [whole // 4] * 2 + [whole]
    assert GradientTaps().run(program, splitting(0.3, work // 25)) == {"split": 1}
    assert outputs_of(program) == [whole // 16] * 4 + [whole // 4] * 4 + [whole]


@pytest.mark.parametrize("target", ["avx2", "simd128"])
def test_pipelines_of_targets(target: str) -> None:
    """A layer of DeepLab's; code for a web page stays small. Half precision converts what windows read."""
    sizes = ((33, 33), (3, 3), (1, 1), (24, 24), (24, 24), (24, 24))
    backend = CPU(TARGETS[target])
    for passes in (backend.pipeline, with_precision(backend.pipeline, "bfloat16")):
        program, *_ = traced(sizes, 320)
        entries = passes.text.split(",layout")[0]
        pipeline.run(pipeline.parse(entries), program, Environment(backend))
        assert len(outputs_of(program)) == (1 if target == "simd128" else 9)
