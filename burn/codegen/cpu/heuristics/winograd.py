"""Options of the pass `winograd` by CPU. The pass's own defaults are for tile registers.

The costs are times of moving an element of a tile, counted in multiplications and additions.
"""

from __future__ import annotations

from burn.codegen.cpu.target import Target
from burn.passes.winograd import Winograd

FETCHED = 1 << 18
"""The most elements of a transformed filter in programs that a web page downloads with its weights. A layer of 64 channels has a
filter of 147 KB, and of 590 KB in the Winograd domain: larger ones would dominate the download."""


def is_narrow(target: Target) -> bool:
    """True for CPUs with vectors of four floats and separate multiply and add."""
    return target.vector_bytes == 16 and target.architecture in ("wasm32", "x86_64")


def options(target: Target) -> str:
    """The options for a CPU: costs that differ from those of the pass; "" for none."""
    costs, default = target.costs, Winograd()
    values = {
        "element": costs.winograd_element,
        "cached": costs.winograd_cached,
        "constant": costs.winograd_constant,
        "cache": costs.winograd_cache,
    }
    changed = [f"{name}={value}" for name, value in values.items() if value != getattr(default, name)]
    return " ".join([*changed, *(["bfloat16"] if target.multiplies_pairs else [])])
