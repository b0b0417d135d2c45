"""The CPU's code and the interpreter of kernels agree: on every pass's cases, on random programs, on sizes of 0 and 1."""

from __future__ import annotations

import pytest

from tests.kernels.interpreting import Unsupported, check, sizes_of
from tests.passes.cases import PLAIN, Case, cases, random, random_weights, read
from tests.passes.test_random import Maker

KERNELS = ("casts", "decompose", "fuse", "indexing", "joining", "layout", "one_hot", "pack", "reductions", "views")
"""The files of cases whose programs make kernels of many kinds; the others are laws of algebra."""

CASES = [
    pytest.param(case, marks=[pytest.mark.slow] if case.large else [])
    for case in cases()
    if case.name.startswith(KERNELS)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    weights = random_weights(read(case))
    program = read(case, weights)
    sizes = dict.fromkeys(sizes_of(program), 3)
    arrays = [random(t, sizes, 100 + i, case.special) for i, t in enumerate(program.input_types)]
    try:
        check(program, arrays, PLAIN)
    except Unsupported:
        pytest.skip()


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("seed", range(6))
def test_random_program(seed: int, n: int) -> None:
    program = Maker(seed + 1000).make()
    arrays = [random(t, {"n": n}, seed + i) for i, t in enumerate(program.input_types)]
    check(program, arrays)
