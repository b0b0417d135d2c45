"""`numbers`: results of training examples, to compare those of two devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def numbers(result: Any) -> list[float]:
    """The numbers in the result of an example, in order."""
    if isinstance(result, Mapping):
        result = list(result.values())
    return [n for part in result for n in numbers(part)] if isinstance(result, Sequence) else [float(result)]
