"""An op with several results: gradients by one of them, in programs that read another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.adjoint.reverse import gradients
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from tests.fuzz.gradients.case import STEP

STARTS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: x.sort(-1),
    "topk": lambda x: burn.topk(x, 3)[0],
    "scan": lambda x: burn.scan(lambda c, s: (c * 0.5 + s, c.sin() + s), x.sum() * 0.1, x)[1],
    "two of a scan": lambda x: sum(burn.scan(lambda c, s: (c * s, (c + s, burn.cos(s))), x[0], x)[1]),
}


@pytest.mark.parametrize("name", STARTS)
def test_derivatives_of_directional_derivatives(name: str) -> None:
    def function(x: Any) -> Any:
        start = STARTS[name](x)
        last, rows = burn.scan(lambda c, s: ((c * 0.5 + s).sigmoid() - s, s * c), start.sum() * 0.1, start)
        return last + (rows * rows).sum()

    def slope(x: Any) -> Any:
        return burn.jvp(function, (x,), (burn.ones_like(x),))[1]

    x = np.random.default_rng(0).standard_normal(4)
    of = burn.compile(slope, (x,), cache=False)
    got = burn.compile(burn.grad(slope), (x,), cache=False)(x)
    for i, direction in enumerate(np.eye(4)):
        want = (of(x + STEP * direction) - of(x - STEP * direction)) / (2 * STEP)
        np.testing.assert_allclose(got[i], want, rtol=1e-6, atol=1e-8)


def test_inputs_are_independent_of_each_other() -> None:
    """A value that is an input has a cotangent, and forwards none to the operands of its op."""
    program = Program.create([("x", TensorType("float64", (3,)))])
    with program.building():
        (x,) = program.inputs
        values, indices = ops.sort(x, axis=0, descending=False)
        picked = ops.mul(values, ops.gather_elements(x, indices, axis=0))
        total = ops.reduce(picked, kind="sum", axes=(0,))
        by_x, by_values = gradients([total], [ops.full(dtype="float64", shape=(), value=1.0)], [x, values])
    assert by_x is not None and by_values is not None
    program.finish([("by_x", by_x), ("by_values", by_values)])
    given = np.array([0.3, -2.0, 1.5])
    found = executable(program, Options(cache=False))(given)
    np.testing.assert_allclose(
        found[0], given
    )  # by the gather alone: each element times the same element of the values
    np.testing.assert_allclose(found[1], np.sort(given))
