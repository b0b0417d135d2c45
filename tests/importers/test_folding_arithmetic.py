"""Nodes of small constants that the importer evaluates give what the same nodes compute at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import burn

SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)


def computed(op: str, operands: list[np.ndarray], constant: bool, **attributes: Any) -> np.ndarray:
    """The node's result, its operands initializers or inputs."""
    names = [f"x{i}" for i in range(len(operands))]
    tensors = [numpy_helper.from_array(a, n) for a, n in zip(operands, names, strict=True)]
    infos = [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [] if constant else infos,
        [onnx.ValueInfoProto(name="y")],
        tensors if constant else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {} if constant else dict(zip(names, operands, strict=True))
    return burn.load(model, cache=False).run(feed)["y"]


def ends(dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    numbers = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, 100]
    return np.array(numbers + ([-1, -2, -7] if info.min else []), dtype)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=lambda dtype: dtype.__name__)
def test_integer_division(dtype: Any) -> None:
    """Towards zero, as Python's own integers say, the least number among them; -1 wraps it."""
    dividends = np.repeat(ends(dtype), len(ends(dtype)))
    divisors = np.tile(ends(dtype), len(ends(dtype)))
    dividends, divisors = dividends[divisors != 0], divisors[divisors != 0]
    modulus = 1 << np.iinfo(dtype).bits
    pairs = [(int(a), int(b)) for a, b in zip(dividends, divisors, strict=True)]
    quotients = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    want = np.array([q % modulus for q in quotients], np.uint64).astype(dtype)
    for start in range(0, len(want), 48):  # of few elements, which the importer evaluates
        part = slice(start, start + 48)
        got = computed("Div", [dividends[part], divisors[part]], constant=True)
        np.testing.assert_array_equal(got, want[part])
    np.testing.assert_array_equal(computed("Div", [dividends, divisors], constant=False), want)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_integer_reductions_wrap(op: str, dtype: Any) -> None:
    high = np.iinfo(dtype).max
    x = np.array([[high, high, 3], [1 << 20, 1 << 20, 1 << 12]], dtype)
    for attributes in ({}, {"keepdims": 0}):
        folded, run = (computed(op, [x], constant, **attributes) for constant in (True, False))
        np.testing.assert_array_equal(folded, run)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Min", "Max", "Mod", "Neg", "Abs"])
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int64, np.float16, np.float32], ids=lambda dtype: dtype.__name__
)
def test_special_numbers(op: str, dtype: Any) -> None:
    if np.dtype(dtype).kind == "f":
        x = np.array([0.0, -0.0, 1.5, -3.25, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    else:
        x = ends(dtype)
    if op == "Mod" and np.dtype(dtype).kind == "f":
        pytest.skip("a remainder of floats has the sign of the dividend alone")
    if op == "Neg" and np.dtype(dtype).kind == "u":
        pytest.skip("ONNX has no negatives without a sign")
    operands = [x] if op in ("Neg", "Abs") else [x, np.roll(x, 1)]
    if op == "Mod":
        operands[1] = np.where(operands[1] == 0, np.ones_like(x), operands[1])
    folded, run = (computed(op, operands, constant) for constant in (True, False))
    np.testing.assert_array_equal(folded, run)
