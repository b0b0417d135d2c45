"""The code in the README and in the guides runs, and what is shown side by side gives the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, _compare, blocks, run

ASSUMED = """```python
import numpy as np
import torch
import burn

burn.export(lambda input: input * 2.0, "model.onnx", ("float32[batch, 4]",))
x = np.ones((2, 4), np.float32)
module, example = torch.nn.Linear(4, 3), torch.ones(2, 4)
names = {"features": torch.nn.Linear(784, 128), "head": torch.nn.Linear(128, 10)}
torch.save(torch.nn.ModuleDict(names).state_dict(), "classifier.pt")
```
"""
"""What the README's code takes for granted: a model and its input, a PyTorch module, a checkpoint."""


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "README.md"], ids=lambda p: p.stem)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    wanted = sum(block.kind == "console" or block.kind.startswith("python") for block in blocks(page))
    assert 0 < run(page, tmp_path) <= wanted


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(ASSUMED + (ROOT / "README.md").read_text())
    assert run(page, tmp_path) > 2


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python torch\nx = 1\n```\n\n```rust\nlet x = 1;\n```\n")
    assert blocks(page) == [Block("python torch", "x = 1\n", 4), Block("rust", "let x = 1;\n", 8)]


def test_what_differs_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="page"):
        _compare({"y": 1.0}, {"y": 1.1}, "page")
    page = tmp_path / "page.md"
    page.write_text("```python\nassert False\n```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path)
    page.write_text("```console\n$ false\n```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path)
