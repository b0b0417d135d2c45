"""An architecture of transformers, drawn by a seed, against eager torch through torch.compile.

BURN_SWEEP=20 draws so many, BURN_SWEEP_SEED another seed; `python -m tests.architectures` runs those of all packages."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.architectures.drawn import listed
from tests.architectures.small import RULES, matched
from tests.architectures.ways import run

COUNT = int(os.environ.get("BURN_SWEEP", "1"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "29"))
pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_package_lists_names_that_are_its_own() -> None:
    names = listed("transformers")
    assert len(names) > 300 and len(set(names)) == len(names)
    assert listed("a package that is not there") == []


def test_drawn_architectures_agree_with_torch() -> None:
    names = listed("transformers")
    random.Random(SEED).shuffle(names)
    compared = 0
    for name in names:
        results = run(name, ("forward",))
        compared += results[0]["state"] == "agrees"
        assert all(r["state"] != "ours" for r in results), f"{name}: {results}"
        if compared >= COUNT:
            return


@pytest.mark.parametrize(
    ("field", "value", "small"),
    [
        ("num_hidden_layers", 32, 2),
        ("hidden_size", 4096, 32),
        ("depths", [2, 2, 18, 2], [2, 2, 2, 2]),
        ("eps", 1e-6, 1e-6),
    ],
)
def test_fields_become_small(field: str, value: object, small: object) -> None:
    assert matched(field, value, RULES) == small
