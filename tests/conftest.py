"""What every test runs with: nothing that other runs left in the cache of compiled programs."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.covering import mark_rest

os.environ["BURN_CACHE_SIZE"] = "0"
FIRST = ("tests/typing/", "tests/docs/test_pages.py", "tests/onnx_suite/test_suite.py", "tests/deploy/test_gpus.py")
"""Tests of up to a minute each. At the end of a run, one of them would leave the other processes without work."""

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # PyTorch's: each worker has a CPU, and threads that wait for others spin


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which is empty."""
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BURN_CACHE_SIZE")
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def common_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all processes of this run of tests share, and no other run: for what takes long to make and is no subject of
    the test, as the C runtime is."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "common-cache"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` is applied."""
    mark_rest(items)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What there is by now stays: collections of garbage need not go through it again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
