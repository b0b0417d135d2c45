"""Architectures of transformers against eager torch, forward, backward and `generate()`: one in every run."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.importers.torch.architectures import run
from tests.models.architectures import ARCHITECTURES

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = ("Qwen2",)  # shared keys, a cache, one layer: torch traces those of Llama for twice as long


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in ARCHITECTURES])
def test_agrees_with_torch(name: str) -> None:
    failed = [cell.text for cell in run(name) if cell.fault == "ours"]
    assert not failed, "\n".join(failed)
