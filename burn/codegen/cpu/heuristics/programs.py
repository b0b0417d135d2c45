"""What a whole program says about the code that it gets."""

from __future__ import annotations

import sys

from burn.codegen.cpu.target import Target
from burn.kernels.parameters import SMALL

BRIEF = 16384
"""Bytes that a program's kernels touch and operations of its products, in all: about a microsecond. See brief.py."""

FEW_KERNELS = 12
"""Groups of a program up to which hardly two share a kernel, so that numbers in its code are shorter than arguments."""

LONG = 500
"""Groups of a program from which on its launches are a table and not code. LLVM takes a millisecond for the code of a launch; to
read one from a table takes a run about 100 ns."""


def written_numbers(target: Target, groups: int) -> int:
    """The largest number that stays in the code of a program of so many groups; of a small one with many 1, a stride, as layers
    are to share kernels. A module of WebAssembly holds them all: engines compute with arguments at every access to memory what
    with numbers is computed before, and what fetches arguments takes more room than kernels save that are shared."""
    if target.compact:
        return SMALL if groups <= FEW_KERNELS else 1
    return sys.maxsize if target.architecture == "wasm32" else SMALL
