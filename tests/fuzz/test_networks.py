"""Random networks of torch's layers in every test run. BURN_SWEEP=500 adds so many new ones, in worker processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tests.fuzz.networks.case import case, judged, planned, truth
from tests.fuzz.runner import check, sweep

pytestmark = pytest.mark.filterwarnings("ignore")

FIXED = (8, 10, 25, 57)
"""A transposed convolution's gradient in drawn variants, a loop over a cell for a generic CPU, other batch sizes, and a
convolution under autocast."""


@pytest.mark.parametrize("seed", FIXED)
def test_networks_agree_with_torch(seed: int) -> None:
    check(case, seed)


test_more_networks = sweep(case, 300, ("torch", "burn"))


def test_a_seed_is_a_plan() -> None:
    assert str(planned(7)) == str(planned(7))


@pytest.mark.parametrize("seed", [10, 57])
def test_a_wrong_element_is_seen(seed: int) -> None:
    plan = planned(seed)
    got = {name: value.float() for name, value in truth(plan, None).items()}
    assert not judged(plan, None, got)
    value = got["result"] = got["result"].contiguous()
    value.view(-1)[0] += 3 * torch.clamp(value.abs().max(), min=1)
    assert judged(plan, None, got).startswith("result")
