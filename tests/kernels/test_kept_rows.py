"""A costly value in scratch memory for two stages of a row: the stages read it at their own element alone."""

from __future__ import annotations

import numpy as np

import burn


def test_elements_of_other_rows_are_computed_again() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 5, 6)).astype(np.float32)
    rows, columns = random.integers(0, 4, x.shape), random.integers(0, 5, x.shape)

    def two(x: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        costly = burn.sinh(x)
        return burn.take_along_axis(costly, rows, 0), burn.take_along_axis(costly, columns, 1).argmax(2)

    moved, best = burn.compile(two, (x,))(x)
    costly = np.sinh(x)
    np.testing.assert_allclose(np.asarray(moved), np.take_along_axis(costly, rows, 0), rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(best), np.take_along_axis(costly, columns, 1).argmax(2))
