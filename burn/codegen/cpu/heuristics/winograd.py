"""Options of the pass `winograd` by CPU. The pass's own defaults are for wide vectors with multiply-adds."""

from __future__ import annotations

from burn.codegen.cpu.target import Target

NARROW = "element=4 constant=8"
"""Options for CPUs with vectors of four floats and separate multiply and add. At best they perform twelve operations at
once instead of 64, while moving a vector of a tile takes as many instructions as elsewhere."""

FETCHED = f"{NARROW} largest={1 << 18}"
"""Options for programs that a web page downloads with its weights. A layer of 64 channels has a filter of 147 KB, and
of 590 KB in the Winograd domain: larger ones would dominate the download."""


def is_narrow(target: Target) -> bool:
    """True if NARROW applies to a CPU."""
    return target.vector_bytes == 16 and target.architecture in ("wasm32", "x86_64")
