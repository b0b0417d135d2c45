"""A table of thousands of small cases in a few tests: a test takes pytest and xdist about 5 ms, whatever it does."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

Case = TypeVar("Case")


def check_every(cases: Iterable[Case], check: Callable[[Case], None], name: Callable[[Case], str] = str) -> None:
    """Calls `check` for each case. Raises AssertionError at the end, with the name and the traceback of each that raised."""
    failures = []
    for case in cases:
        try:
            check(case)
        except Exception:
            failures.append(f"{name(case)}: {traceback.format_exc()}")
    assert not failures, "\n".join([f"{len(failures)} cases failed", *failures])
