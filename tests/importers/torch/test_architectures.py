"""Architectures of transformers against eager torch, forward, backward and `generate()`: one in every run."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.importers.torch.architectures import WAYS, run
from tests.models.architectures import ARCHITECTURES

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = "Qwen2"
"""Shared keys, a cache, one layer: torch traces those of Llama for twice as long."""


def test_one_agrees_with_torch() -> None:
    """`generate()` compiles the forward pass, of a prompt and of a token; test_models.py runs transformers through `burn.compile`
    and forward at several sizes."""
    _agrees(QUICK, ["backward", "`generate()`"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_agrees_with_torch(name: str) -> None:
    _agrees(name, list(WAYS))


def _agrees(name: str, ways: list[str]) -> None:
    failed = [cell.text for cell in run(name, ways) if cell.fault == "ours"]
    assert not failed, "\n".join(failed)
