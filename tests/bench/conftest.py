"""Tests of `burn-bench` leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_cpus() -> Iterator[None]:
    """The command binds the process to as many CPUs as threads; other tests want theirs back."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    yield
    if before is not None:
        os.sched_setaffinity(0, before)
