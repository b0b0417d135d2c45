"""Files that the pages about the design name exist. Links are in test_reference.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "internals").glob("*.md")])
FILE = re.compile(r"`([\w./*-]*[\w*-]+\.(?:py|c|h|cpp|js|md))`")


@pytest.fixture(scope="module")
def present() -> list[str]:
    folders = ("burn", "docs", "tests", "examples", "benchmarks", "release")
    below = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    return [path.relative_to(ROOT).as_posix() for path in (*below, *ROOT.glob("*.*"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_files_exist(page: Path, present: list[str]) -> None:
    """A name such as `gemm.py` or `hopper/*_library.py` is the end of some path of the repository."""
    missing = []
    for name in FILE.findall(page.read_text()):
        ending = re.compile(r"(^|/)" + re.escape(name).replace(r"\*", "[^/]*") + "$")
        if not any(ending.search(path) for path in present):
            missing.append(name)
    assert missing == []
