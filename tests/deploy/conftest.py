"""The C runtime is compiled once for these tests; the digits once to each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.making import digits, make


@pytest.fixture(scope="package", autouse=True)
def kept_runtime(common_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURN_CACHE_DIR", str(common_cache))
        patch.delenv("BURN_CACHE_SIZE", raising=False)
        yield


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits as a command with its weights in it."""
    return make("exe", digits(), tmp_path_factory.mktemp("command") / "digits")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits as a shared library with its weights beside it."""
    return make("shared", digits(), tmp_path_factory.mktemp("library") / "digits", beside=True)
