"""The growth of work with the size of its input, measured without a clock, so that the load of the machine does not matter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(work: Callable[[], object]) -> int:
    """The lines of Python that `work` runs in this thread, each as often as it runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
