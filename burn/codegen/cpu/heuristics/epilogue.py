"""Heuristics for the epilogue of a tile's accumulators."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import product
from burn.kernels.body import EXPENSIVE, Apply, Convert, walk

FETCHED_DEPTH = 64
"""The depth during which prefetched epilogue operands arrive."""


def fetches_epilogue(kernel: Tiled) -> bool:
    """True if a tile's epilogue operands are prefetched before its accumulation."""
    depth = product([v.extent for v in (*kernel.outer, kernel.inner)])
    return not isinstance(depth, int) or depth >= FETCHED_DEPTH


ROLLED = 12
"""Operations per element from which an epilogue is a loop instead of being unrolled for each vector of a tile. Unrolled
code larger than the instruction cache is fetched again for every tile."""


def rolls_epilogue(kernel: Tiled, vectors: int) -> bool:
    """True if a tile's accumulators, `vectors` of them, are stored and the epilogue loops over them."""
    nodes = [node for node in walk(*(w.value for w in kernel.epilogue)) if isinstance(node, Apply | Convert)]
    cost = sum(16 if isinstance(n, Apply) and n.function in EXPENSIVE else 1 for n in nodes)
    return vectors >= 4 and cost >= ROLLED


def parts_masks(target: Target) -> bool:
    """True if full tiles have a separate code path without masks: masked stores take ten times as long without AVX-512,
    or do not exist."""
    return not target.compact and target.vector_bytes > 4 and "avx512f" not in target.features
