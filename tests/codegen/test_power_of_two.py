"""Powers of the constant 2 are computed by exp2: with its accuracy, and quicker than general powers."""

from __future__ import annotations

import numpy as np
import pytest
from running import call, compiled

from burn.dialect import ops
from burn.dialect.compose import number_like
from burn.dialect.dims import symbol
from burn.dialect.types import TensorType, numpy_dtype

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 127.0, 128.0, -126.0, -149.0, -151.0, 1023.0, 1024.0, -1074.0, -1080.0]


@pytest.mark.parametrize(("dtype", "ulps"), [("float32", 1.2), ("float64", 1.2), ("float16", 0.51)])
def test_powers_of_two(dtype: str, ulps: float) -> None:
    kind = numpy_dtype(dtype)
    power = compiled([TensorType(dtype, (symbol("n"),))], lambda x: ops.pow(number_like(2.0, x), x))
    reach = {"float16": 20, "float32": 140, "float64": 1060}[dtype]
    x = np.concatenate([np.random.default_rng(0).uniform(-reach, reach, 3001), EDGES]).astype(kind)
    with np.errstate(all="ignore"):
        exact = np.exp2(x.astype(np.longdouble))
        want = exact.astype(kind)
        (found,) = call(power, x)
        spacing = np.maximum(np.spacing(want), np.finfo(kind).smallest_subnormal).astype(np.longdouble)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(found[~finite], want[~finite])
    assert (np.abs(found[finite].astype(np.longdouble) - exact[finite]) / spacing[finite]).max() <= ulps
    whole = (x == np.floor(x)) & finite & (want >= np.finfo(kind).tiny)
    np.testing.assert_array_equal(found[whole], want[whole])


def test_infinities_and_nan() -> None:
    power = compiled([TensorType("float32", (symbol("n"),))], lambda x: ops.pow(number_like(2.0, x), x))
    (found,) = call(power, np.array([np.inf, -np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(found, [np.inf, 0, np.nan])


def test_powers_of_two_in_integers() -> None:
    power = compiled([TensorType("int32", (symbol("n"),))], lambda x: ops.pow(number_like(2, x), x))
    (found,) = call(power, np.array([0, 1, 5, 30, -1], np.int32))
    assert found.tolist() == [1, 2, 32, 2**30, 0]
