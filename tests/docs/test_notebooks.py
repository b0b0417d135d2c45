"""The notebooks run from top to bottom, and are kept without outputs: the site has those of its build."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["deployment", "onnx", "training"]


SLOW = ("deployment",)  # compiles the C runtime


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in SLOW), id=path.stem) for path in NOTEBOOKS],
)
def test_notebook(path: Path, tmp_path: Path, common_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("BURN_CACHE_DIR", str(common_cache))
    monkeypatch.delenv("BURN_CACHE_SIZE")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    book = nbformat.read(path, as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.outputs for cell in cells)
