"""Every row of the table traced with named sizes, and with axes of no elements, traced and lazy, against numpy.

If numpy raises (the maximum of no elements, say), burn raises one of its own errors: when the function is traced or recorded, or
when the program runs. If numpy warns and gives NaN, burn gives NaN.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import burn
from burn import BurnError
from burn.lazy import evaluate
from tests.api.rows import ROWS, Row
from tests.api.test_functions import (
    EXAMPLES,
    TRACED,
    as_list,
    check,
    chosen,
    compiled,
    draw,
    function_of,
    reference,
    run_traced,
    sizes_for,
)

OTHERS = 3
"""The sizes that are not 0."""


REFUSED = {
    **dict.fromkeys(
        ("narrow", "split_with_sizes", "topk"), "the row asks for elements that are not there; numpy clamps"
    ),
    **dict.fromkeys(("svdvals", "matrix_rank", "pinv", "cond"), "burn refuses matrices with an axis of no elements"),
    **dict.fromkeys(("median", "quantile", "percentile"), "numpy's NaN, warning or IndexError, by version and axis"),
}
"""Where burn may raise and numpy need not, with the reason."""

OTHERWISE = {
    "chunk": "an axis of no elements is one chunk of none",
    "cond": "numpy refuses matrices without elements",
    "average": "weights that add up to 0 are an error of numpy's; here 0 / 0 is NaN, as for any weights",
    "cosine_similarity": "0 of vectors without elements, as torch has it; the reference divides 0 by 0",
}
"""Names for which the results differ."""


def empty_sizes(row: Row) -> list[dict[str, int]]:
    """One size 0 at a time, then all."""
    letters = sorted(filter(str.isalpha, set("".join(row.inputs))))
    cases = [{c: 0 if c == zero else OTHERS for c in letters} for zero in letters]
    return [*cases, dict.fromkeys(letters, 0)] if len(letters) > 1 else cases


def wanted(row: Row, dtype: str, arrays: list[Any]) -> list[Any] | None:
    """numpy's result; None if it raises."""
    try:
        return reference(row, dtype, arrays)
    except (ValueError, IndexError, ZeroDivisionError):
        return None


@pytest.mark.parametrize("index", TRACED, ids=lambda i: ROWS[i].key)
def test_traced(index: int) -> None:
    """One program with named sizes, at sizes that are drawn and at sizes of 0."""
    row, dtypes = ROWS[index], tuple(chosen(ROWS[index]))

    @EXAMPLES
    @given(st.integers(0, 2**32 - 1), sizes_for(row))
    def examples(seed: int, sizes: dict[str, int]) -> None:
        run_traced(index, dtypes, seed, sizes)

    examples()
    agrees_without_elements(row, index, dtypes)


def agrees_without_elements(row: Row, index: int, dtypes: tuple[str, ...]) -> None:
    for sizes in empty_sizes(row):
        inputs = [draw(row, dtype, 1, sizes) for dtype in dtypes]
        want = [wanted(row, dtype, arrays) for dtype, arrays in zip(dtypes, inputs, strict=True)]
        flat = [a for arrays in inputs for a in arrays]
        if any(w is None for w in want) and row.name not in OTHERWISE:
            with pytest.raises(BurnError):
                compiled(index, dtypes)(*flat)
            continue
        try:
            got = as_list(compiled(index, dtypes)(*flat))
        except BurnError:
            if row.name not in REFUSED:
                raise
            continue
        if row.name in OTHERWISE:
            continue
        each = len(got) // len(dtypes)
        for i, (dtype, expected) in enumerate(zip(dtypes, want, strict=True)):
            check(row, dtype, got[i * each : (i + 1) * each], expected or [])


@pytest.mark.parametrize("index", range(len(ROWS)), ids=lambda i: ROWS[i].key)
def test_lazy(index: int) -> None:
    row = ROWS[index]
    dtype, cases = chosen(row)[0], empty_sizes(row)
    for sizes in cases[index % max(len(cases), 1) :][:1]:  # one of them: every shape is a program of its own
        arrays = draw(row, dtype, 1, sizes)
        want = wanted(row, dtype, arrays)
        if row.name in REFUSED or row.name in OTHERWISE:
            continue
        if want is None:
            with pytest.raises(BurnError):
                evaluate(t.value for t in as_list(row.use(function_of(row), *map(burn.constant, arrays))))
            continue
        results = as_list(row.use(function_of(row), *map(burn.constant, arrays)))
        evaluate(tensor.value for tensor in results)
        check(row, dtype, [tensor.numpy() for tensor in results], want)
