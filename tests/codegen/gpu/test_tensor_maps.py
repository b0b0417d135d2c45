"""Operands of matmuls that tensor maps can describe. Copies by them: test_hopper_attention.py, tests/gpu."""

from __future__ import annotations

import pytest

from burn.codegen.triton.tensor_maps import matrix
from burn.dialect.dims import Dim, Expr, LoopVar, symbol
from burn.kernels.body import Load

ROW, COLUMN, BATCH = LoopVar("k", symbol("_0")), LoopVar("d", 64), LoopVar("b", 3)
INDEX, FEATURE, BEFORE = (Expr.of(loop) for loop in (ROW, COLUMN, BATCH))


@pytest.mark.parametrize(
    ("offset", "values", "fits"),
    [
        (BEFORE * 4096 + INDEX * 64 + FEATURE, {}, True),
        (INDEX * symbol("_1") + FEATURE, {"_1": symbol("heads") * 64}, True),
        (INDEX * symbol("_1") + FEATURE, {"_1": symbol("wide")}, False),
        (BEFORE * 4 + INDEX * 64 + FEATURE, {}, False),
        (INDEX * 60 + FEATURE, {}, False),
        (INDEX * 64 + FEATURE * 2, {}, False),
        (FEATURE * 64 + INDEX, {}, False),
        (INDEX * INDEX * 64 + FEATURE, {}, False),
        (FEATURE, {}, False),
        (0, {}, False),
    ],
)
def test_which_sides_are_matrices(offset: Dim, values: dict[str, Dim], fits: bool) -> None:
    found = matrix(Load("float16", 0, offset), ROW, COLUMN, values)
    assert (found is not None) == fits
    if found is not None:
        assert found.begin + found.stride * INDEX + FEATURE == offset
