"""Heuristics for the code of a whole program."""

from __future__ import annotations

import sys

from burn.codegen.cpu.target import Target
from burn.kernels.parameters import SMALL

SHORT_WORK = 16384
"""The most bytes and matmul operations of a program that runs briefly (code_size.py): about a microsecond."""

FEW_KERNELS = 12
"""Up to this many groups, few kernels are shared, so that constants in the code are shorter than arguments."""

LONG = 100
"""From this many groups on, launches are a table instead of code. LLVM takes a millisecond for a launch's code; reading
one from a table takes about 40 ns per run."""


def written_numbers(target: Target, groups: int) -> int:
    """The largest number that stays constant in the code, by the program's number of groups. With many groups it is 1
    (a stride), so that layers share kernels. A WebAssembly module keeps all numbers constant: engines compute addresses
    from arguments at every memory access, and passing arguments takes more space than sharing saves."""
    if target.compact:
        return SMALL if groups <= FEW_KERNELS else 1
    return sys.maxsize if target.architecture == "wasm32" else SMALL
