"""Matmuls with weights of a few bits whose depth is no multiple of a block, and scales that are not finite."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import burn
from burn import ops

rng = np.random.default_rng(0)
COLUMNS = 19


def scales(worst: float, shape: tuple[int, ...] = (COLUMNS,)) -> np.ndarray:
    found = rng.standard_normal(shape).astype(np.float32)
    found.flat[3] = worst
    return found


def agree(function: Any, depth: int, weight: np.ndarray) -> None:
    """weight: [columns, depth], dequantised."""
    run = burn.compile(function, [f"float32[rows, {depth}]"])
    for rows in (0, 1, 2, 7, 40):
        x = np.abs(rng.standard_normal((rows, depth))).astype(np.float32) + 0.5  # infinities of one sign
        with np.errstate(all="ignore"):
            want = x.astype(np.float64) @ weight.T.astype(np.float64)
        np.testing.assert_allclose(run(x), want.astype(np.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("worst", [np.inf, -np.inf, np.nan, 1.0])
@pytest.mark.parametrize("depth", [1, 3, 5, 8, 13])
def test_columns_of_8_bit_floats(depth: int, worst: float) -> None:
    numbers = (np.abs(rng.standard_normal((COLUMNS, depth))) + 0.5).astype(ml_dtypes.float8_e4m3fn)
    scale = scales(worst)

    def function(x: Any) -> Any:
        weight = burn.constant(numbers).astype("float32") * burn.constant(scale[:, None])
        return x @ weight.T

    agree(function, depth, numbers.astype(np.float32) * scale[:, None])


@pytest.mark.parametrize("worst", [np.inf, 3e38, 1.0])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("depth", [2, 7])
def test_columns_of_integers(depth: int, dtype: str, worst: float) -> None:
    """The zero point differs from every number, so that no element is 0 times infinity."""
    numbers, scale = rng.integers(3, 5, (COLUMNS, depth)).astype(dtype), scales(worst)
    zero = np.full(COLUMNS, 2, dtype)

    def function(x: Any) -> Any:
        weight = ops.dequantize(
            burn.constant(numbers), burn.constant(scale), burn.constant(zero), dtype="float32", axis=0
        )
        return x @ weight.T

    with np.errstate(all="ignore"):
        agree(function, depth, (numbers.astype(np.float32) - 2) * scale[:, None])


@pytest.mark.parametrize("worst", [np.inf, 1.0])
def test_blocks(worst: float) -> None:
    numbers, scale = rng.integers(9, 16, (COLUMNS, 3, 32)).astype(np.uint8), scales(worst, (COLUMNS, 3))
    held = numbers[..., ::2] | numbers[..., 1::2] << 4
    weight = ((numbers - 8.0) * scale[..., None]).reshape(COLUMNS, 96)

    def function(x: Any) -> Any:
        return ops.block_dot(x, burn.constant(held), burn.constant(scale), None, bits=4, block=32)

    agree(function, 90, weight[:, :90])
