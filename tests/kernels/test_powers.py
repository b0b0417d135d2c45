"""Functions of the interpreter on single numbers: values for which numpy computes scalars and arrays differently."""

from __future__ import annotations

import math

import pytest

from burn.kernels import numbers

POWERS = [
    (-math.inf, 0.5, math.inf),
    (-0.0, 0.5, 0.0),
    (-math.inf, -0.5, 0.0),
    (-0.0, -0.5, math.inf),
    (-2.0, 2.0, 4.0),
    (0.0, 0.0, 1.0),
    (-0.0, 3.0, -0.0),
    (-1.0, math.inf, 1.0),
]


@pytest.mark.parametrize(("base", "exponent", "wanted"), POWERS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_powers_are_those_of_c(base: float, exponent: float, wanted: float, dtype: str) -> None:
    found = float(numbers.apply("pow", dtype, base, exponent))
    assert found == wanted and math.copysign(1, found) == math.copysign(1, wanted)


def test_a_fractional_power_of_a_negative_number_is_nan() -> None:
    assert math.isnan(float(numbers.apply("pow", "float64", -2.0, 0.5)))
