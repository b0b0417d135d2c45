"""Heuristics for the epilogue of a tile's accumulators."""

from __future__ import annotations

from collections.abc import Iterable

from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import Target
from burn.dialect.dims import product
from burn.kernels.body import EXPENSIVE, Apply, Convert, Scalar, children
from burn.kernels.gelu import gelu_of

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
    return vectors >= 4 and _operations([w.value for w in kernel.epilogue]) >= ROLLED


EXPENSIVE_OPERATIONS, COARSE_OPERATIONS = 16, 8
"""Operations that an expensive function counts as, and one with the digits of bfloat16."""


def _operations(values: Iterable[Scalar]) -> int:
    """The operations for one element."""
    todo, seen, total = list(values), set[int](), 0
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        gelu = gelu_of(node) if isinstance(node, Apply) and node.coarse else None
        todo += children(node) if gelu is None else [gelu[0]]
        match node:
            case Apply(coarse=True):
                total += COARSE_OPERATIONS
            case Apply(function=function):
                total += EXPENSIVE_OPERATIONS if function in EXPENSIVE else 1
            case Convert():
                total += 1
    return total


def parts_masks(target: Target) -> bool:
    """True if full tiles have a separate code path without masks: masked stores take ten times as long without AVX-512,
    or do not exist."""
    return not target.compact and target.vector_bytes > 4 and "avx512f" not in target.features
