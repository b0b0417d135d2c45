"""The code in the README and in the guides runs, and what is shown side by side gives the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Block, _compare, blocks, run


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "README.md"], ids=lambda p: p.stem)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    wanted = sum(block.kind == "console" or block.kind.startswith("python") for block in blocks(page))
    assert 0 < run(page, tmp_path) <= wanted


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
