"""Reductions of segments: beside numpy, with lists that overlap and skip updates, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.errors import BurnError, TypeMismatch

REDUCE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("reduction", ["none", *REDUCE])
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_segments(reduction: str, rows: int) -> None:
    data = np.random.default_rng(rows)
    x, updates = data.standard_normal((rows, 2, 3)), data.standard_normal((9, 2, 3))
    order = data.integers(0, 9, 11)
    starts = np.sort(data.integers(0, 12, rows + 1))
    want = x.copy()
    for t in range(rows):
        for k in range(starts[t], starts[t + 1]):
            want[t] = REDUCE[reduction](want[t], updates[order[k]]) if reduction in REDUCE else want[t]
        if reduction == "none" and starts[t] < starts[t + 1]:
            want[t] = updates[order[starts[t]]]
    got = ops.segment_reduce(x, updates, order.astype("i4"), starts.astype("i4"), reduction=reduction, longest=11)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


def test_entries_out_of_range_read_no_other_memory() -> None:
    order, starts = np.array([99, -5, 1], "i4"), np.array([-4, 2, 50], "i4")
    got = ops.segment_reduce(np.zeros((2, 1)), np.ones((3, 1)), order, starts, reduction="add", longest=3)
    np.testing.assert_array_equal(np.asarray(got), [[2], [1]])


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"order": np.zeros((3, 1), "i4")}, "order is .*, not a row of int32"),
        ({"starts": np.zeros(3, "i8")}, "starts is .*, not a row of int32"),
        ({"updates": np.zeros(3)}, "must be rows of the same rank"),
        ({"reduction": "mean"}, "there is no reduction 'mean'"),
        ({"longest": 0}, "at most 0 updates"),
    ],
)
def test_what_is_refused(change: dict, wrong: str) -> None:
    zeros = np.zeros(3, "i4")
    given: dict[str, Any] = {"x": np.zeros((2, 1)), "updates": np.zeros((3, 1)), "order": zeros, "starts": zeros}
    given |= {"reduction": "add", "longest": 3, **change}
    with pytest.raises(TypeMismatch, match=wrong):
        burn.compile(lambda: ops.segment_reduce(**given), ())


def test_starts_fit_the_rows() -> None:
    zeros = np.zeros(4, "i4")
    with pytest.raises(BurnError, match="a size is 4"):
        np.asarray(
            ops.segment_reduce(np.zeros((2, 1)), np.zeros((3, 1)), zeros, zeros, reduction="add", longest=3).numpy()
        )
