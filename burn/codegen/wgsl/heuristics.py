"""Shapes of kernels within WebGPU's default limits, for any GPU, and lowering preferences."""

from __future__ import annotations

from burn.dialect.dims import Dim, coefficient, estimate, product
from burn.kernels.body import ContractionKernel, Load, LoopKernel, Stage, walk
from burn.kernels.preferences import Preferences

LANES = 64
"""Invocations of a workgroup: two or more warps of most GPUs."""

SHARED_LENGTH = 64
"""Rows from this length on are reduced by a workgroup."""

FEW = 4096
"""Up to this many iterations, a workgroup shares long rows even if neighbouring lanes then read strided elements."""

PREFERENCES = Preferences(
    keep_rows=False,
    strided_columns=True,
    reduce_block=8192,
    long_rows=65536,
    repeat_small=True,
    repeat_reads=True,
    fuse_reductions=True,
    concat_operands=4,
    scatter_collisions=65536,
)
"""A row's values are recomputed rather than kept, as workgroup memory is small. A launch costs as much as on CUDA."""


def _length(stage: Stage) -> Dim:
    return product([v.extent for v in stage.loops])


def is_shared(kernel: LoopKernel) -> bool:
    """True if a workgroup, not an invocation, computes an iteration of the parallel loops."""
    along = [s for s in kernel.stages if s.loops and s.order == "parallel"]
    if not along or max(estimate(_length(s)) for s in along) < SHARED_LENGTH:
        return False
    count = estimate(product([v.extent for v in kernel.parallel]))
    return count <= FEW or any(_is_contiguous(stage) for stage in along)


def _is_contiguous(stage: Stage) -> bool:
    """True if a load advances by one element with the stage's last loop."""
    offsets = [node.offset for node in walk(*stage.scalars) if isinstance(node, Load)]
    return any(coefficient(offset, stage.loops[-1]) == 1 for offset in offsets)


def tile(kernel: ContractionKernel) -> tuple[int, int] | None:
    """Rows and columns of a matmul's workgroup; None if the plain loops suit it, as there is nothing to share."""
    rows, columns = estimate(product([v.extent for v in kernel.rows])), estimate(kernel.column.extent)
    depth = estimate(product([v.extent for v in kernel.depth]))
    if rows < 4 or columns < 4 or depth < 8:
        return None
    return (64 if rows >= 48 else 16), (64 if columns >= 48 else 16)
