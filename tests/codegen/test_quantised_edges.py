"""Quantisation where its kernels could differ: ties, zeros, the largest sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops

SCALE, TENTH = np.float32(0.2), np.float32(0.1)


def quantize(x: Any, scale: float, zero: int = 0) -> Any:
    return ops.quantize(x, np.float32(scale), np.uint8(zero), dtype="uint8")


def dequantize(q: Any, scale: float, zero: int = 0) -> Any:
    return ops.dequantize(q, np.float32(scale), np.uint8(zero), dtype="float32")


def test_a_constant_that_is_added_and_subtracted_rounds() -> None:
    magic = np.float32(12582912.0)
    found = burn.jit(lambda q: quantize((dequantize(q, 0.2) + magic) - magic, 0.1))(np.arange(6, dtype=np.uint8))
    np.testing.assert_array_equal(np.asarray(found), [0, 0, 0, 10, 10, 10])


@pytest.mark.parametrize("zero", [0, 7])
def test_a_rounded_negative_number_is_no_negative_zero(zero: int) -> None:
    x = np.array([-0.04, -0.0, 0.04, 0.0], np.float32)
    found = burn.jit(lambda x: 1 / dequantize(quantize(x, 0.1, zero), 0.1, zero))(x)
    np.testing.assert_array_equal(np.asarray(found), np.full(4, np.inf, np.float32))


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("size", [3, 17])
def test_the_largest_sums_of_depthwise_convolutions(kind: str, size: int) -> None:
    drawn = np.random.default_rng(size)
    w = np.full((2, 1, size, size), 127 if kind == "int8" else 255, kind)
    x = drawn.integers(0, 256, (1, 2, size + 2, size + 1), dtype=np.uint8)
    zero = np.uint8(255)

    def convolved(x: Any) -> Any:
        weight = ops.dequantize(burn.tensor(w), np.float32(1), w.dtype.type(0), dtype="float32")
        none, one = (0, 0), (1, 1)
        return ops.conv(
            ops.dequantize(x, np.float32(1), zero, dtype="float32"),
            weight,
            strides=one,
            dilations=one,
            low=none,
            high=none,
            groups=2,
        )

    wide = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 255, (size, size), axis=(2, 3))
    want = (wide * w.astype(np.int64)[None, :, 0, None, None]).sum((-1, -2))
    np.testing.assert_array_equal(np.asarray(burn.jit(convolved)(x)), want.astype(np.float32))
