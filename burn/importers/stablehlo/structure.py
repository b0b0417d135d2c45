"""The bodies of StableHLO's structured attributes: `offset_dims = [0, 1], index_vector_dim = 2`."""

from __future__ import annotations

import re
from typing import Any

_ENTRY = re.compile(r"(\w+)\s*=\s*(\[[^\]]*\]|[\w.+-]+)")


def read_structure(body: str) -> dict[str, Any]:
    """The entries by name: lists of integers, integers, and words."""
    found: dict[str, Any] = {}
    for name, value in _ENTRY.findall(body):
        if value.startswith("["):
            found[name] = tuple(int(number) for number in re.findall(r"-?\d+", value))
        else:
            found[name] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return found
