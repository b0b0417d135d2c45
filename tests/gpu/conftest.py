"""Fixtures of tests on a real GPU, which are skipped without one."""

from __future__ import annotations

from typing import Any

import pytest

from burn.runtime.device import count

GPUS = count()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if GPUS == 0:
        pytest.skip("no GPU")


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch with access to the GPU."""
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch has no GPU")
    return found
