"""Options of the pass `winograd` by CPU. The pass's own defaults are for tile registers.

The costs are times of moving an element of a tile, counted in multiplications and additions.
"""

from __future__ import annotations

from burn.codegen.cpu.matmul import vnni
from burn.codegen.cpu.target import Target
from burn.kernels.layouts import Convolution
from burn.passes.winograd import Winograd

FETCHED = 1 << 18
"""The most elements of a transformed filter in programs that a web page downloads with its weights. A layer of 64 channels has a
filter of 147 KB, and of 590 KB in the Winograd domain: larger ones would dominate the download."""


def is_narrow(target: Target) -> bool:
    """True for CPUs with vectors of four floats and separate multiply and add."""
    return target.vector_bytes == 16 and target.architecture in ("wasm32", "x86_64")


def options(target: Target) -> str:
    """The options for a CPU: costs that differ from those of the pass; "" for none."""
    default = Winograd()
    changed = [f"{name}={value}" for name, value in _costs(target).items() if value != getattr(default, name)]
    return " ".join([*changed, *(["bfloat16"] if target.multiplies_pairs else [])])


def _costs(target: Target) -> dict[str, int]:
    """Those of the pass, by option."""
    costs = target.costs
    return {
        "element": costs.winograd_element,
        "cached": costs.winograd_cached,
        "constant": costs.winograd_constant,
        "cache": costs.winograd_cache,
    }


PAIRS_TIME = 0.85
"""The time of a convolution of bytes over that of floats, if instructions multiply pairs of int16 (Zen 3: 0.8 to 0.9)."""


def bytes_as_floats(convolution: Convolution, target: Target) -> bool:
    """True if a convolution of bytes takes less time in float32, in the Winograd domain. It does not with instructions for runs
    of four bytes: they multiply four times as many elements as those for float32, and the domain has a quarter of the
    multiplications."""
    if target.byte_run != vnni.PAIRS or target.exact or target.is_size_bound or is_narrow(target):
        return False
    return Winograd(**_costs(target)).gains(convolution, PAIRS_TIME)
