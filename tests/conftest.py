"""Fixtures of every test, which starts with an empty cache of compiled programs."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.covering import mark_rest

os.environ["BURN_CACHE_SIZE"] = "0"
FIRST = ("tests/typing/", "tests/docs/test_pages.py", "tests/onnx_suite/test_suite.py", "tests/deploy/test_gpus.py")
"""Tests of up to a minute each. At the end of a run, one of them would leave the other processes without work."""

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # PyTorch's: each worker has a CPU, and threads that wait for others spin


OPTIMISED = ("tests/codegen/", "tests/deploy/", "tests/e2e/", "tests/fuzz/", "tests/onnx_suite/", "tests/runtime/")
"""Tests whose programs go through LLVM's IR passes. Those that compile much take 30 % less CPU time without
optimization. BURN_OPTIMIZE=speed in the environment optimizes for all."""
CHOSEN = "BURN_OPTIMIZE" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if not CHOSEN:
        os.environ["BURN_OPTIMIZE"] = "speed" if item.nodeid.startswith(OPTIMISED) else "none"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which is empty."""
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BURN_CACHE_SIZE")
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def common_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all processes of this test run share, and no other run. It holds slow builds that are not the subject of a
    test, such as the C runtime."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "common-cache"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Almost everything that is made while tests are collected stays, so that the garbage collector would look at all of it again
    and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` is applied."""
    mark_rest(items)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freezes the objects that exist by now, so that garbage collections skip them."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
