"""The elements that dropout keeps, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn import ops
from tests.codegen.dropouts import KEY, kept

SHAPES = [(), (1,), (0,), (5, 0), (16,), (3, 15), (2, 3, 17), (7, 64), (2, 1, 5, 48), (4, 131)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.995])
def test_bits(shape: tuple[int, ...], rate: float) -> None:
    key = burn.tensor(np.array(KEY, np.uint32))
    got = ops.random_kept(key, shape=shape, rate=rate).numpy()
    want = kept(KEY, shape or (1,), rate).reshape(shape)
    np.testing.assert_array_equal(got, want)
