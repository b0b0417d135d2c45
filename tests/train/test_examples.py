"""The examples that train, as they are, with settings that take a moment."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


BRIEFLY: dict[str, dict[str, Any]] = {
    "digits": {"epochs": 3},
    "houses": {"epochs": 3},
    "custom_loop": {"epochs": 3},
    "own_optimizer": {"steps": 100},
    "reviews": {"epochs": 1},
    "wgan": {"steps": 12, "batch": 64},
    "shakespeare": {"epochs": 2, "context": 32, "written": 10, "width": 32, "heads": 2, "layers": 1},
    "finetune": {"epochs": 3},
    "lora": {"epochs": 2, "before": 1},
}
"""Every example, and settings with which its numbers still follow from its first ones, however it is rounded: for tests/gpu."""


def test_every_example_is_run_on_gpus() -> None:
    assert BRIEFLY.keys() == {path.stem for path in EXAMPLES.glob("*.py")}


def test_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("digits").main(epochs=10) > 0.85
    assert capsys.readouterr().out.count("\nepoch ") == 9


def test_houses() -> None:
    """Regression from a CSV file."""
    assert example("houses").main(epochs=10) > 0.9


def test_custom_loop() -> None:
    model, average = example("custom_loop").main(epochs=12)
    assert model > 0.85 and average > 0.85


def test_own_optimizer() -> None:
    heights = example("own_optimizer").main(steps=1500)
    assert heights["AdaBelief"] < heights["SGD"] < 1


@pytest.mark.slow
def test_reviews() -> None:
    """Text classification, padded."""
    reviews = example("reviews")
    assert reviews.main() > 0.95
    words = reviews.Words.of(["a good film", "a film"])
    assert words.known == ("a", "film", "good") and words(("a GOOD book!", 1)) == ([2, 4, 1], 1)


@pytest.mark.slow
def test_wgan() -> None:
    heaps, share = example("wgan").main(steps=60, batch=64)
    assert 0 <= heaps <= 8 and 0 <= share <= 1


@pytest.mark.slow
def test_shakespeare(capsys: pytest.CaptureFixture[str]) -> None:
    size = {"width": 32, "heads": 2, "layers": 1}
    loss = example("shakespeare").main(epochs=3, context=32, written=40, **size)
    assert loss < 3.7 and len(capsys.readouterr().out.splitlines()[-1]) > 0


def test_finetune() -> None:
    """An imported ONNX model learns something new."""
    before, after = example("finetune").main(epochs=12)
    assert before < 0.3 and after > 0.6


@pytest.mark.slow
def test_lora() -> None:
    losses, apart = example("lora").main(epochs=3, before=0)
    assert losses[-1] < losses[0] and apart < 1e-4
