"""What becomes of a tile's sums."""

from __future__ import annotations

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import product
from burn.kernels.body import EXPENSIVE, Apply, Convert, walk

FETCHED_DEPTH = 64
"""Places of the depth during which what an epilogue touches arrives."""


def fetches_epilogue(kernel: Tiled) -> bool:
    """Whether what a tile's epilogue reads and writes is asked for in front of its sum."""
    depth = product([v.extent for v in (*kernel.outer, kernel.inner)])
    return not isinstance(depth, int) or depth >= FETCHED_DEPTH


ROLLED = 12
"""Operations for every element from which on an epilogue is a loop and not written out for each vector of a tile: straight code
that is longer than the caches of instructions is read anew for every tile."""


def rolls_epilogue(kernel: Tiled, vectors: int) -> bool:
    """Whether a tile's sums, so many vectors, are kept in memory and the epilogue goes over them in a loop."""
    nodes = [node for node in walk(*(w.value for w in kernel.epilogue)) if isinstance(node, Apply | Convert)]
    cost = sum(16 if isinstance(n, Apply) and n.function in EXPENSIVE else 1 for n in nodes)
    return vectors >= 4 and cost >= ROLLED


def parts_masks(target: Target) -> bool:
    """Whether a tile whose rows and columns all exist is written apart, without masks: other instructions than AVX-512's take ten
    times as long to store under one, or know none."""
    return not target.compact and target.vector_bytes > 4 and "avx512f" not in target.features
