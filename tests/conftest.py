"""What every test runs with: nothing that other runs left in the cache of compiled programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["BURN_CACHE_SIZE"] = "0"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which is empty."""
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BURN_CACHE_SIZE")
    return tmp_path / "cache"
