"""Options of the pass `winograd` by CPU. The pass's own defaults are for wide vectors with multiply-adds."""

from __future__ import annotations

from burn.codegen.cpu.target import Target

NARROW = "element=4 constant=8"
"""Of CPUs whose vectors hold four floats and that multiply and add one after the other. At best twelve of these are done at once
and not 64, while to move a vector of a tile takes as many instructions as elsewhere."""

FETCHED = f"{NARROW} largest={1 << 18}"
"""The same where a page fetches the program with its weights. A layer of 64 channels has a filter of 147 KB, and of 590 at
points: what is larger would be a good part of what is fetched."""


def is_narrow(target: Target) -> bool:
    """Whether NARROW is about a CPU."""
    return target.vector_bytes == 16 and target.architecture in ("wasm32", "x86_64")
