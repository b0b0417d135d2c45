"""Weights' gradients of 1x1 convolutions as other ops, against float64: drawn sizes, orders of axes and element types."""

from __future__ import annotations

import random

import numpy as np
import pytest

import burn

SIZES = (0, 1, 1, 2, 3, 7, 13)
CLOSE = {"float32": 1e-6, "float64": 1e-13, "bfloat16": 1e-2}


@pytest.mark.parametrize("seed", range(12))
def test_contractions_in_the_form_of_gradients(seed: int) -> None:
    drawn, numbers = random.Random(seed), np.random.default_rng(seed)
    size = {name: drawn.choice(SIZES) for name in "nhbkcd"}
    depthwise, dtype = seed % 2 == 0, drawn.choice(sorted(CLOSE))
    if depthwise:
        lhs, rhs, out = "nhbk", drawn.choice(("nhbk", "hnbk", "nhkb")), drawn.choice(("bk", "kb"))
    else:
        lhs, rhs, out = "nhc", drawn.choice(("nhd", "hnd")), "dc"
    x, y = (numbers.standard_normal([size[a] for a in names]).astype(np.float32) for names in (lhs, rhs))
    given = [burn.tensor(each).astype(dtype) for each in (x, y)]
    wide = [np.asarray(each.astype("float64")) for each in given]
    equation = f"{lhs},{rhs}->{out}"
    found = np.asarray(burn.jit(lambda x, y: burn.einsum(equation, x, y))(*given).astype("float64"))
    want = np.einsum(equation, *wide)
    bound = CLOSE[dtype] * np.einsum(equation, *map(np.abs, wide))
    assert found.shape == want.shape and (np.abs(found - want) <= bound + 1e-30).all()
