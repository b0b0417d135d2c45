"""The optional packages of pyproject.toml are those that pages and error messages name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOR_DEVELOPERS = frozenset({"models", "classical", "docs", "dev"})


def extras() -> set[str]:
    section = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n[project.")[0]
    return set(re.findall(r"^(\w+) = \[", section, re.M))


def pages() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder, pattern in (("docs", "*.md"), ("docs", "*.ipynb"), ("burn", "*.py"), ("benchmarks", "*.md")):
        found += sorted((ROOT / folder).rglob(pattern))
    return found


def test_named_extras_exist() -> None:
    named: set[str] = set()
    for path in pages():
        for package, names in re.findall(r"([\w-]+|\.)\[([\w, ]+)\]'", path.read_text()):
            if package in ("burn", "burn-mlir", "."):
                assert package != "burn", f"{path}: the package is called burn-mlir"
                named |= {name.strip() for name in names.split(",")} - {"name"}
    assert named <= extras()
    assert len(named) > 5


def test_the_guide_has_a_row_for_each() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "guide" / "install.md").read_text(), re.M))
    assert extras() - FOR_DEVELOPERS <= rows


@pytest.mark.parametrize("line", re.findall(r'^  "(.*?)",', (ROOT / "pyproject.toml").read_text(), re.M))
def test_nothing_is_pinned(line: str) -> None:
    """constraints.txt has the versions of the tests."""
    assert "==" not in line.split(";")[0]
