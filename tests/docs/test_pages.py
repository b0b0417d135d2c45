"""The code in the README, on the first page and in the guides runs, and what is shown side by side gives the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, _compare, blocks, lacking, run

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
"""The setup that the README's code assumes: a model and its input, a PyTorch module, a checkpoint."""


@pytest.fixture
def kept(common_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are run with a cache, as their readers run them."""
    monkeypatch.setenv("BURN_CACHE_DIR", str(common_cache))
    monkeypatch.delenv("BURN_CACHE_SIZE")


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "README.md"], ids=lambda p: p.stem)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    wanted = sum(block.kind == "console" or block.kind.startswith("python") for block in blocks(page))
    assert min(1, wanted) <= run(page, tmp_path) <= wanted


@pytest.mark.usefixtures("kept")
@pytest.mark.slow  # compiles for other machines, whose C libraries are first built
@pytest.mark.parametrize("page", [p for p in PAGES if any(b.needs for b in blocks(p))], ids=lambda p: p.stem)
def test_with_other_programs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, tmp_path, everything=True)
    if absent := sorted({name for block in blocks(page) for name in lacking(block)}):
        pytest.skip(f"the rest has run, but what needs {', '.join(absent)}")


def test_what_is_only_read_of_deploy() -> None:
    """Node's addon, which tests/deploy/test_node.py builds, and code for a GPU (tests/codegen/gpu/test_programs.py)."""
    page = ROOT / "docs" / "guide" / "deploy.md"
    read = [block.code.splitlines()[0] for block in blocks(page) if not block.is_run]
    assert [line.split()[0] for line in read] == ["import", "./scorer-gpu"]
    assert "model.mjs" in read[0]


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
    assert [block.is_run for block in blocks(page)] == [True, False]


def test_what_needs_another_program(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console no-such-program\n$ false\n```\n\n"
        "```console sh numpy\n$ NAME=made sh -c 'touch $NAME'\n```\n\n```rust x.rs\n1\n```\n"
    )
    assert [lacking(block) for block in blocks(page)] == [["no-such-program"], [], []]
    assert run(page, tmp_path) == 0 and not (tmp_path / "made").exists()
    assert run(page, tmp_path, everything=True) == 1 and (tmp_path / "made").exists()
    assert (tmp_path / "x.rs").read_text() == "1\n"


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
