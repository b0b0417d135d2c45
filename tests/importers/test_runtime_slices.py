"""Slice with bounds whose number only a run finds out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from burn.adapters.onnx import load_onnx
from burn.errors import RunError
from tests.importers.models import model, tensor, value
from tests.importers.test_ops_b_control import compare, graph, loop_body, node, unknown

INT64 = TensorProto.INT64


def bags() -> onnx.ModelProto:
    """EmbeddingBag as torch's exporter writes it: a loop over bags, whose bounds are slices of the offsets."""
    slices = [
        node("Reshape", "i minus", "at"),
        node("Add", "at one", "next"),
        node("Add", "at two", "behind"),
        node("Slice", "offsets at next", "start"),
        node("Slice", "offsets next behind", "end"),
        node("Equal", "start end", "none"),
    ]
    row = [node("Slice", "rows start end", "bag"), node("ReduceSum", "bag axis", "sum", keepdims=1)]
    empty = graph([node("Identity", "zero", "z")], [], [unknown("z")])
    summed = graph(row, [], [unknown("sum")])
    branch = node("If", "none", "total", then_branch=empty, else_branch=summed)
    body = loop_body(
        [*slices, branch, node("Concat", "all total", "more", axis=0)], [unknown("all")], [unknown("more")]
    )
    nodes = [node("Loop", "count go0 first", "y", body=body)]
    initializers = [
        tensor("minus", np.array([-1])),
        tensor("one", np.array([1])),
        tensor("two", np.array([2])),
        tensor("axis", np.array([0])),
        tensor("go0", np.array(True)),
        tensor("zero", np.zeros((1, 3), np.float32)),
        tensor("first", np.zeros((0, 3), np.float32)),
    ]
    inputs = [value("rows", ["n", 3]), value("offsets", ["m"], INT64), value("count", [], INT64)]
    return model(nodes, inputs, [value("y", ["bags", 3])], initializers)


def test_bags_between_offsets() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    for offsets in ([0, 3, 3, 5, 7], [0, 0], [0, 7, 7, 7]):
        compare(bags(), rows, np.array(offsets), np.array(len(offsets) - 1))


def bounded(axes: Any = None, steps: Any = None) -> onnx.ModelProto:
    """x[start:end] with bounds of an unknown number."""
    more = {"axes": axes, "steps": steps}
    names = [name if given is not None else "-" for name, given in more.items()]
    nodes = [node("Slice", " ".join(["x", "start", "end", *names]).removesuffix(" - -").removesuffix(" -"), "y")]
    inputs = [value("x", ["a", "b"]), value("start", ["s"], INT64), value("end", ["e"], INT64)]
    given = [tensor(name, np.array(numbers)) for name, numbers in more.items() if numbers is not None]
    return model(nodes, inputs, [unknown("y")], given)


@pytest.mark.parametrize(
    "axes, steps, start, end",
    [
        (None, None, [1], [3]),
        (None, None, [-2], [2**40]),
        (None, None, [1, -3], [-1, 2**40]),
        (None, None, [], []),
        ([1], None, [0], [-1]),
        ([0, -1], None, [1, 2], [4, 9]),
        ([1, 0], [-1, 2], [-1, 0], [-9, 9]),
    ],
)
def test_bounds_of_an_unknown_number(axes: Any, steps: Any, start: list[int], end: list[int]) -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    compare(bounded(axes, steps), x, np.array(start, np.int64), np.array(end, np.int64))


@pytest.mark.parametrize("axes", [None, [0]])
def test_a_run_with_another_number_of_bounds_ends(axes: Any) -> None:
    run, x = load_onnx(bounded(axes)), np.zeros((4, 5), np.float32)
    others = [([1], [3, 3], 2), ([0, 0, 0], [3, 3, 3], 1), ([], [3], 1 if axes else 2)]
    for start, end, operand in others:
        with pytest.raises(RunError, match=f"operand {operand} of Slice has"):
            run.run({"x": x, "start": np.array(start, np.int64), "end": np.array(end, np.int64)})
