"""Symbolic sizes against Python's integers: whatever simplifies must keep its value for every size."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burn.dialect.dims import (
    Dim,
    Expr,
    LoopVar,
    coefficient,
    dim_max,
    dim_min,
    evaluate,
    exact_div,
    floordiv,
    mod,
    non_negative,
    parse,
    substitute,
    symbol,
)

NAMES = ("batch", "seq", "past")


def expressions(depth: int = 3) -> st.SearchStrategy:
    """(the symbolic expression, the same as a function of sizes)."""
    leaf = st.one_of(
        st.integers(0, 12).map(lambda n: (n, lambda sizes: n)),
        st.sampled_from(NAMES).map(lambda name: (symbol(name), lambda sizes: sizes[name])),
    )

    def combine(children: st.SearchStrategy) -> st.SearchStrategy:
        pair = st.tuples(children, children)
        return st.one_of(
            pair.map(lambda p: (p[0][0] + p[1][0], lambda s: p[0][1](s) + p[1][1](s))),
            pair.map(lambda p: (p[0][0] - p[1][0], lambda s: p[0][1](s) - p[1][1](s))),
            pair.map(lambda p: (p[0][0] * p[1][0], lambda s: p[0][1](s) * p[1][1](s))),
            pair.map(lambda p: (dim_max(p[0][0], p[1][0]), lambda s: max(p[0][1](s), p[1][1](s)))),
            pair.map(lambda p: (dim_min(p[0][0], p[1][0]), lambda s: min(p[0][1](s), p[1][1](s)))),
            st.tuples(children, st.integers(1, 9)).map(
                lambda p: (floordiv(p[0][0], p[1]), lambda s: p[0][1](s) // p[1])
            ),
            st.tuples(children, st.integers(1, 9)).map(lambda p: (mod(p[0][0], p[1]), lambda s: p[0][1](s) % p[1])),
        )

    return st.recursive(leaf, combine, max_leaves=2**depth)


SIZES = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})


@settings(max_examples=400, deadline=None)
@given(expressions(), SIZES)
def test_simplified_expressions_keep_their_value(expression, sizes) -> None:
    dim, expected = expression
    assert evaluate(dim, sizes) == expected(sizes)


@settings(max_examples=200, deadline=None)
@given(expressions())
def test_what_is_printed_is_read_back(expression) -> None:
    dim, _ = expression
    assert parse(str(dim)) == dim


@settings(max_examples=300, deadline=None)
@given(expressions(), SIZES)
def test_what_is_proven_non_negative_is(expression, sizes) -> None:
    dim, value = expression
    if non_negative(dim):
        assert value(sizes) >= 0


@pytest.mark.parametrize("seed", range(60))
def test_a_place_survives_reshaping(seed: int) -> None:
    """Splitting a row-major offset again by its own strides gives the loop variables back."""
    rng = random.Random(seed)
    extents: list[Dim] = [
        rng.choice([1, 2, 7, 64, symbol("batch"), symbol("seq") * 3]) for _ in range(rng.randint(1, 4))
    ]
    loops = [Expr.of(LoopVar(f"i{k}", d)) if d != 1 else 0 for k, d in enumerate(extents)]
    offset: Dim = 0
    for place, extent in zip(loops, extents, strict=True):
        offset = offset * extent + place
    rest = offset
    for place, extent in reversed(list(zip(loops, extents, strict=True))):
        assert mod(rest, extent) == place or extent == 1
        rest = floordiv(rest, extent)
    assert rest == 0


def test_proofs_that_kernels_rely_on() -> None:
    seq, lane, panel = symbol("seq"), LoopVar("lane", 16), LoopVar("panel", 24)
    column = Expr.of(panel) * 32 + 16 + Expr.of(lane)
    assert coefficient(mod(column, 64), lane) == 1  # a vector of columns stays inside one attention head
    assert floordiv(column, 64) == floordiv(Expr.of(panel) * 2 + 1, 4)
    assert dim_max(dim_min(512, seq), seq) == seq
    assert exact_div(seq * 768, 12) == seq * 64
    assert substitute(floordiv(seq - 1, 2), {next(iter(seq.terms))[0][0]: 7}) == 3


@pytest.mark.parametrize(
    "text", ["", "1 +", "a.b", "f(x)", "1.5", "a ** 2", "__import__('os')", "a if b else c", "True"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse(text)
