"""Tolerances of a GPU's half-precision results against float64."""

from __future__ import annotations

from typing import Any

CLOSE = 2e-2
"""Relative to the largest element, for bfloat16 matmuls."""


def assert_near(got: Any, want: Any) -> None:
    """Of torch's tensors."""
    assert (got.double() - want).abs().max() <= CLOSE * want.abs().max()
