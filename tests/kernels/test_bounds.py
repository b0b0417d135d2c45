"""Bounds of integer scalars hold for every value, and indices that are proved need no check."""

from __future__ import annotations

import random

import numpy as np
import pytest

import burn
from burn.kernels.body import Apply, Const, Convert, Load, Scalar
from burn.kernels.bounds import RULES, bounds, within

OPERATIONS = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def shifted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    count = np.clip(b.astype(np.int64), 0, bits)
    unsigned = a.astype(np.int64) & (2**bits - 1)
    return np.where((b < 0) | (b >= bits), 0, unsigned >> count).astype(a.dtype)


def evaluate(scalar: Scalar, x: np.ndarray) -> np.ndarray:
    """At all values of the load."""
    match scalar:
        case Load():
            return x
        case Const(value=value):
            return np.full(x.shape, value, scalar.dtype)
        case Convert(arg=arg):
            return evaluate(arg, x).astype(scalar.dtype)
        case Apply(function=function, args=args):
            values = [evaluate(arg, x) for arg in args]
            return shifted(*values) if function == "shift_right" else OPERATIONS[function](*values)
    raise AssertionError(scalar)


def drawn(draw: random.Random, dtype: str, depth: int) -> Scalar:
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    if depth == 0 or draw.random() < 0.2:
        return Load(dtype, 0, 0) if draw.random() < 0.5 else Const(dtype, draw.randint(low, high))
    function = draw.choice(sorted(RULES))
    second = Const(dtype, draw.randint(0, 9)) if function == "shift_right" else drawn(draw, dtype, depth - 1)
    return Apply(dtype, function, (drawn(draw, dtype, depth - 1), second))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_value_lies_within(dtype: str) -> None:
    assert set(RULES) == {*OPERATIONS, "shift_right"}
    values = np.arange(256, dtype=np.int64).astype(dtype)
    draw, narrower = random.Random(3), 0
    for _ in range(2000):
        scalar = drawn(draw, dtype, 4)
        low, high = bounds(scalar)
        found = evaluate(scalar, values).astype(np.int64)
        assert low <= found.min() and found.max() <= high, scalar
        wide = bounds(Convert("int64", scalar))
        assert wide == (low, high)
        narrower += high - low < 255
    assert narrower > 500


def test_an_index_is_proved() -> None:
    load = Load("int32", 0, 0)
    masked = Apply("int32", "and", (load, Const("int32", 7)))
    assert within(masked, 8) and not within(masked, 7) and not within(load, 2**31)
    assert not within(Apply("int32", "sub", (masked, Const("int32", 1))), 8)  # -1 counts from the end
    assert within(Apply("int32", "min", (masked, Const("int32", 4))), 5)


@pytest.mark.parametrize("size", [7, 8])
def test_programs(size: int) -> None:
    """Without a check in the code only where none can fail."""
    table, indices = np.arange(size, dtype=np.float32), np.array([3, 15, -1, 8 + 6], np.int64)
    run = burn.compile(lambda i: burn.tensor(table)[i & 7], ("int64[4]",))
    if size == 8:
        np.testing.assert_array_equal(run(indices), table[indices & 7])
    else:
        np.testing.assert_array_equal(run(indices * 2 & 6), table[indices * 2 & 6])
        with pytest.raises(burn.errors.IndexRunError):
            run(indices)
