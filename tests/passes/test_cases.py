"""Every law and pass on a few lines of IR: what comes out, that it is a fixed point, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.cases import PLAIN, Case, cases, check, inputs, optimised, random_weights, read, run, text_of

CASES = cases()


@pytest.mark.untuned
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case) -> None:
    weights = random_weights(read(case))
    program = optimised(case, weights)
    output = text_of(program)
    assert check(case, output) == 0, f"\n{output}"
    original = read(case, weights)
    arrays = inputs(original, case.special)
    want = run(original, PLAIN, arrays)
    got = run(program, PLAIN, arrays)
    for a, b in zip(got, want, strict=not case.adds):
        assert a.shape == b.shape and a.dtype == b.dtype
        if case.rounds:
            np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", [c for c in CASES if not c.stays], ids=lambda case: case.name)
def test_checks_can_fail(case: Case) -> None:
    """The CHECK lines do not hold for the program as it was."""
    assert check(case, text_of(read(case))) != 0


@pytest.mark.parametrize("case", [c for c in CASES if c.passes == "simplify"], ids=lambda case: case.name)
def test_simplified_stays(case: Case) -> None:
    """Simplifying what is simplified changes nothing: no law undoes another."""
    once = optimised(case, random_weights(read(case)))
    first = text_of(once)
    from burn.passes.simplify import Simplify

    Simplify(rounds=1).run(once)
    assert text_of(once) == first
