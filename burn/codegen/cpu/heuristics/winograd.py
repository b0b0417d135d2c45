"""Options of the pass `winograd` by CPU. The pass's own defaults are for tile registers.

The costs are times of moving an element of a tile, counted in multiplications and additions. A core that multiplies more
elements at once computes more in that time, but moves no more elements from its shared cache: the numbers grow with the
vectors' lanes.
"""

from __future__ import annotations

from burn.codegen.cpu.target import Target

CACHED_PER_LANE, ELEMENT_PER_LANE, CONSTANT_PER_LANE = 1.25, 3.0, 2.5
"""For vectors with fused multiply-adds, per float32 lane. In a cache, layers of 16 to 32 channels, where the decision is close,
take 0.8 to 1.4 on AVX-512 and AVX2 (one thread). An element of a transformed filter comes from memory."""

CACHE = 8 << 20
"""Bytes that a few threads find in their caches: those of two cores, and a part of the shared one."""

FEWEST_LANES = 8
"""Cores with vectors of four floats have two or four units that multiply: as many elements at once as eight lanes."""

NARROW = "element=4 constant=8"
"""Options for CPUs with vectors of four floats and separate multiply and add. At best they perform twelve operations at
once instead of 64, while moving a vector of a tile takes as many instructions as elsewhere."""

FETCHED = f"{NARROW} largest={1 << 18}"
"""Options for programs that a web page downloads with its weights. A layer of 64 channels has a filter of 147 KB, and
of 590 KB in the Winograd domain: larger ones would dominate the download."""


def is_narrow(target: Target) -> bool:
    """True if NARROW applies to a CPU."""
    return target.vector_bytes == 16 and target.architecture in ("wasm32", "x86_64")


def options(target: Target) -> str:
    """The options for a CPU whose programs may grow; "" for the pass's defaults."""
    if is_narrow(target):
        return NARROW
    if target.tiles:
        return ""
    lanes = max(FEWEST_LANES, target.lanes(4))
    costs = {"element": ELEMENT_PER_LANE, "cached": CACHED_PER_LANE, "constant": CONSTANT_PER_LANE}
    return " ".join([*(f"{name}={round(cost * lanes)}" for name, cost in costs.items()), f"cache={CACHE}"])
