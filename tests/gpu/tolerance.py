"""How near to float64's numbers a card has to come in halves."""

from __future__ import annotations

from typing import Any

CLOSE = 2e-2
"""Of the largest element, for sums of bfloat16's products."""


def assert_near(got: Any, want: Any) -> None:
    """Of torch's tensors."""
    assert (got.double() - want).abs().max() <= CLOSE * want.abs().max()
