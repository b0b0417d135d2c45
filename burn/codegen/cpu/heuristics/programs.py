"""What a whole program says about the code that it gets."""

from __future__ import annotations

import sys

from burn.codegen.cpu.target import Target
from burn.kernels.parameters import SMALL

BRIEF = 16384
"""Bytes that a program's kernels touch and operations of its products, in all: about a microsecond. See brief.py."""

FEW_KERNELS = 12
"""Groups of a program up to which hardly two share a kernel, so that numbers in its code are shorter than arguments."""


def written_numbers(target: Target, groups: int) -> int:
    """The largest number that stays in the code of a program of so many groups; of a small one with many 1, a stride, as layers
    are to share kernels. A module of WebAssembly holds them all: engines compute with arguments at every access to memory what
    with numbers is computed before, and what fetches arguments takes more room than kernels save that are shared."""
    if target.compact:
        return SMALL if groups <= FEW_KERNELS else 1
    return sys.maxsize if target.architecture == "wasm32" else SMALL
