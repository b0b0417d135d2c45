"""Symbolic sizes against Python's integers: whatever simplifies must keep its value for every size."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burn.dialect.dims import (
    Atom,
    Dim,
    Expr,
    LoopVar,
    Symbol,
    atoms,
    coefficient,
    dim_broadcast,
    dim_max,
    dim_min,
    estimate,
    evaluate,
    exact_div,
    factor,
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
def test_an_index_survives_reshaping(seed: int) -> None:
    """Splitting a row-major offset again by its own strides gives the loop variables back."""
    rng = random.Random(seed)
    extents: list[Dim] = [
        rng.choice([1, 2, 7, 64, symbol("batch"), symbol("seq") * 3]) for _ in range(rng.randint(1, 4))
    ]
    loops = [Expr.of(LoopVar(f"i{k}", d)) if d != 1 else 0 for k, d in enumerate(extents)]
    offset: Dim = 0
    for index, extent in zip(loops, extents, strict=True):
        offset = offset * extent + index
    rest = offset
    for index, extent in reversed(list(zip(loops, extents, strict=True))):
        assert mod(rest, extent) == index or extent == 1
        rest = floordiv(rest, extent)
    assert rest == 0


def test_proofs_that_kernels_rely_on() -> None:
    seq, lane, panel = symbol("seq"), LoopVar("lane", 16), LoopVar("panel", 24)
    column = Expr.of(panel) * 32 + 16 + Expr.of(lane)
    assert coefficient(mod(column, 64), lane) == 1  # a vector of columns stays inside one attention head
    assert floordiv(column, 64) == floordiv(Expr.of(panel) * 2 + 1, 4)
    assert dim_max(dim_min(512, seq), seq) == seq
    assert exact_div(seq * 768, 12) == seq * 64
    assert [factor(n) for n in (6, seq, seq * 12 + 8)] == [6, 1, 4]
    assert substitute(floordiv(seq - 1, 2), {next(iter(seq.terms))[0][0]: 7}) == 3


@pytest.mark.parametrize(
    "text", ["", "1 +", "a.b", "f(x)", "1.5", "a ** 2", "__import__('os')", "a if b else c", "True"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse(text)


def test_24_named_sizes_take_no_longer_than_two() -> None:
    """The proof that an index is in range does not expand the multiplied sizes."""
    shape = [symbol(f"n{i}") for i in range(24)]
    loops = [Expr.of(LoopVar(f"i{k}", d)) for k, d in enumerate(shape)]
    offset: Dim = 0
    for index, extent in zip(loops, shape, strict=True):
        offset = offset * extent + index
    began = time.process_time()
    for index, extent in reversed(list(zip(loops, shape, strict=True))):
        assert mod(offset, extent) == index
        offset = floordiv(offset, extent)
    assert offset == 0
    assert time.process_time() - began < 5


def test_quotient_and_remainder_join_again() -> None:
    n, m = symbol("n"), symbol("m")
    i = Expr.of(LoopVar("i", n * m * 5))
    for step in (4, 7, m, m * 3):
        assert floordiv(i, step) * step + mod(i, step) == i
        assert floordiv(i, step) * step * n * 2 + mod(i, step) * n * 2 + 1 == i * n * 2 + 1
    inner = floordiv(i, 8)  # a place of [.., 3, 8], made one number again
    assert floordiv(i, 24) * 24 + mod(inner, 3) * 8 + mod(i, 8) == i
    assert floordiv(i, 4) * 4 - mod(i, 4) != i


def test_sizes_of_nothing() -> None:
    n, m = symbol("n"), symbol("m")
    zero = {"n": 0, "m": 1}
    assert evaluate(dim_max(n, 1), zero) == 1
    assert evaluate(dim_min(n, 1), zero) == 0
    assert evaluate(dim_max(n - 1, 0), zero) == 0
    assert evaluate(dim_broadcast(n, m), zero) == 0
    assert evaluate(dim_broadcast(n, m), {"n": 5, "m": 1}) == evaluate(dim_broadcast(m, n), {"n": 1, "m": 5}) == 5
    assert dim_broadcast(n, 1) == dim_broadcast(n, n, 1) == dim_broadcast(dim_broadcast(n, 1), n) == n
    assert (
        dim_broadcast(dim_broadcast(n, m), n) == dim_broadcast(n, m) and str(dim_broadcast(n, m)) == "broadcast(m, n)"
    )
    assert dim_broadcast(n, m, 7) == 7 and dim_broadcast(n, 0) == 0
    assert (
        dim_broadcast(dim_min(512, n), n) == dim_broadcast(n, dim_min(n, 512)) == n
    )  # a table of 512 elements, cut to n
    assert str(dim_broadcast(dim_min(m, n), n)) == "broadcast(min(m, n), n)"  # of none, beside one, none
    assert str(dim_broadcast(dim_min(5, n), m)) == "broadcast(m, min(5, n))"
    with pytest.raises(ValueError, match="do not broadcast"):
        dim_broadcast(2, 3)


def test_where_a_loop_runs_its_extent_is_not_0() -> None:
    n = symbol("n")
    rest = dim_max(n - 1, 0)
    i, j = Expr.of(LoopVar("i", rest)), Expr.of(LoopVar("j", dim_min(n, 1)))
    assert not non_negative(n - 1) and non_negative(i * 0 + n - 1, rest)
    assert non_negative(n - 2 - i)  # x[1:] lies in x
    assert floordiv(i + 1, n) == 0 and mod(i + 1, n) == i + 1
    assert mod(j + n - 1, n * 2) == j + n - 1
    assert non_negative(Expr.of(LoopVar("k", n * symbol("m"))) * 0 + n * symbol("m") - n, n, symbol("m"))


@pytest.mark.parametrize("seed", range(12))
def test_proofs_over_loops_hold_wherever_the_loops_run(seed: int) -> None:
    """Random expressions over sizes and loop variables: proofs and divisions, against every iteration."""
    rng = random.Random(seed)
    sizes: list[Dim] = [symbol("n"), symbol("m")]

    def expression(leaves: list[Dim], depth: int) -> Dim:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([*leaves, rng.randint(-2, 4)])
        a, b = expression(leaves, depth - 1), expression(leaves, depth - 1)
        kind = rng.randrange(7)
        if kind < 5:
            return [a + b, a - b, a * b, dim_min(a, b), dim_max(a, b)][kind]
        divisor = rng.choice([2, 3, 4, *sizes])
        return floordiv(a, divisor) if kind == 5 else mod(a, divisor)

    for _ in range(60):
        loops = [LoopVar(f"i{k}", expression(sizes, 2)) for k in range(2)]
        claim = expression([*sizes, *(Expr.of(v) for v in loops)], 3)
        if isinstance(claim, int) or not non_negative(claim):
            continue
        for n, m in itertools.product(range(1, 4), repeat=2) if _divides_by_size(claim, loops) else SMALL:
            known: dict[Atom, Dim] = {Symbol("n"): n, Symbol("m"): m}
            extents = [evaluate(v.extent, {"n": n, "m": m}) for v in loops]
            if any(e < 1 for v, e in zip(loops, extents, strict=True) if v in atoms(claim)):
                continue
            for indices in itertools.product(*(range(max(e, 1)) for e in extents)):
                value = substitute(claim, {**known, **dict(zip(loops, indices, strict=True))})
                assert isinstance(value, int) and value >= 0, (
                    str(claim),
                    [str(v.extent) for v in loops],
                    n,
                    m,
                    indices,
                )


SMALL = list(itertools.product(range(4), repeat=2))


def _divides_by_size(claim: Dim, loops: list[LoopVar]) -> bool:
    """True if it may contain a quotient by a named size: then the sizes are at least 1."""
    return any(
        f"{sign} {name}" in str(d) for sign in "/%" for name in "nm" for d in (claim, *(v.extent for v in loops))
    )


def test_an_estimate_takes_sizes_that_cannot_all_be_so() -> None:
    n, m = symbol("n"), symbol("m")
    wide = dim_broadcast(n, m + 3)
    with pytest.raises(ValueError, match="do not broadcast"):
        evaluate(wide, {"n": 64, "m": 64})
    assert estimate(wide, 64) == 67
    assert estimate(floordiv(n, m - 64), 64) == 0
    assert estimate(7, 64) == 7 and estimate(n * n) == 4096
