"""Releases of packages that tests compare with: an older one may refuse or miscompute something."""

from __future__ import annotations

import re
from importlib import metadata


def release(package: str) -> tuple[int, ...]:
    """(2, 13) for torch 2.13.0+cpu; () if the package is not installed."""
    try:
        numbers = re.findall(r"\d+", metadata.version(package))
    except metadata.PackageNotFoundError:
        return ()
    return tuple(map(int, numbers[:2]))
