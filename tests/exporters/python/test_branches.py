"""Branches whose sizes fit some inputs only, in the source that burn-import writes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import burn
from burn.errors import RunError
from burn.exporters.python.generate import generate
from burn.importers.onnx import import_onnx
from tests.importers.models import model, node, tensor, value


def branching(by_sum: bool) -> onnx.ModelProto:
    """x [n] -> x as [2, 3] if its sum is positive (or it has 6 elements), else as [1, n]."""
    then = onnx.helper.make_graph([node("Reshape", "x six", "t")], "then", [], [value("t", ("a", "b"))])
    other = onnx.helper.make_graph([node("Unsqueeze", "x zero", "e")], "else", [], [value("e", ("a", "b"))])
    tests = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s least", "c")]
    if not by_sum:
        tests = [node("Shape", "x", "shape"), node("Squeeze", "shape", "s"), node("Equal", "s count", "c")]
    branch = node("If", "c", "y", then_branch=then, else_branch=other)
    held = {"six": np.array([2, 3]), "zero": np.array([0]), "count": np.array(6), "least": np.array(0, np.float32)}
    return model(
        [*tests, branch], [value("x", ("n",))], [value("y", ("a", "b"))], [tensor(k, v) for k, v in held.items()]
    )


@pytest.mark.parametrize("by_sum", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_fixed_sizes_need_not_fit_a_branch_that_is_not_taken(by_sum: bool, plain: bool) -> None:
    """burn.jit traces both branches for the sizes of its arguments."""
    run = burn.jit(generate(import_onnx(branching(by_sum)), "Model", "model.onnx", plain=plain).load())
    for count, sign, shape in ((6, 1, (2, 3)), (4, -1, (1, 4))):
        x = np.full(count, sign, np.float32)
        np.testing.assert_array_equal(run(x), x.reshape(shape))
    if by_sum:
        with pytest.raises(RunError, match=r"4 elements .* do not fill shape"):
            run(np.ones(4, np.float32))
