"""The type stubs are those that docs/stubs.py writes from the tables of today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_stubs_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "docs" / "stubs.py")
    assert spec is not None and spec.loader is not None
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    stale = [name for name, text in stubs.files().items() if (ROOT / name).read_text() != text]
    assert stale == [], "run python docs/stubs.py"
