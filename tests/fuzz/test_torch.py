"""Random torch modules in every test run.

BURN_SWEEP=500 adds so many new ones, in worker processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.fuzz.runner import check, sweep
from tests.fuzz.torch.case import case, judged, results
from tests.fuzz.torch.program import Program, drawn

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", [2, 4, 6])
def test_modules_agree_with_torch(seed: int) -> None:
    check(case, seed)


test_more_modules = sweep(case, 300, ("torch", "burn"))


def test_a_seed_is_a_module() -> None:
    assert drawn(7).text == drawn(7).text


@pytest.mark.parametrize(("error", "seen"), [(3e-7, False), (1e-4, True)])
def test_rounding_is_told_from_mistakes(error: float, seen: bool) -> None:
    """The derivatives by queries are 0 where there is one key; as a difference of two equal numbers they are nearly so."""
    line = "F.scaled_dot_product_attention((x0 @ p[0])[None, None], (x0 @ p[1])[None, None], (x0 @ p[2])[None, None])"
    program = Program((1, 4), [line], [(4, 8)] * 3, 0, False)
    module, (x, _) = program.module(), program.tensors()
    wanted = results(module, x, True)
    assert wanted is not None
    got = [(name, value + error * (name == "gradient of p[0]")) for name, value in wanted]
    assert bool(judged(module, x, got, wanted, True)) is seen
