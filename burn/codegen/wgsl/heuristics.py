"""Shapes of kernels within WebGPU's default limits, for any GPU, and lowering preferences. software.py has those for CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.dialect.dims import Dim, coefficient, estimate, product
from burn.kernels.body import AttentionKernel, ContractionKernel, Load, LoopKernel, Stage, walk
from burn.kernels.preferences import Preferences

LANES = 64
"""Invocations of a workgroup: two or more warps of most GPUs."""

SHARED_LENGTH = 64
"""Rows from this length on are reduced by a workgroup."""

FEW = 4096
"""Up to this many iterations, a workgroup shares long rows even if neighbouring lanes then read strided elements."""

UNROLLED, UNROLLED_NODES = 25, 1000
"""Up to so many iterations, and nodes of their expressions, a reduction is unrolled: a window of 5x5."""


def _length(stage: Stage) -> Dim:
    return product([v.extent for v in stage.loops])


def is_shared(kernel: LoopKernel) -> bool:
    """True if a workgroup, not an invocation, computes an iteration of the parallel loops."""
    along = [s for s in kernel.stages if s.loops and s.order == "parallel"]
    if not along or max(estimate(_length(s)) for s in along) < SHARED_LENGTH:
        return False
    count = estimate(product([v.extent for v in kernel.parallel]))
    return count <= FEW or any(_is_contiguous(stage) for stage in along)


def is_unrolled(stage: Stage) -> bool:
    """True if the text of a stage's reductions repeats for each iteration. A window's indices then need no divisions, and its
    loads do not wait for each other."""
    length = _length(stage)
    if not isinstance(length, int) or not 1 < length <= UNROLLED or stage.writes:
        return False
    return length * sum(1 for _ in walk(*stage.scalars)) <= UNROLLED_NODES


def _is_contiguous(stage: Stage) -> bool:
    """True if a load advances by one element with the stage's last loop."""
    offsets = [node.offset for node in walk(*stage.scalars) if isinstance(node, Load)]
    return any(coefficient(offset, stage.loops[-1]) == 1 for offset in offsets)


@dataclass(frozen=True)
class Tile:
    """A workgroup's part of a contraction, in rows and columns. An invocation has a block of `high` rows and `wide` columns,
    multiples of 4. `slices` invocations share a block and divide the depth. depth: elements of it that are staged at once. If it
    is 0, none is staged, and each invocation loads its operands from the heap."""

    rows: int
    columns: int
    high: int
    wide: int
    slices: int
    depth: int

    @property
    def down(self) -> int:
        """Blocks of a column of blocks."""
        return self.rows // self.high

    @property
    def across(self) -> int:
        return self.columns // self.wide

    @property
    def blocks(self) -> int:
        return self.down * self.across

    @property
    def lanes(self) -> int:
        return self.blocks * self.slices

    @property
    def vectors(self) -> int:
        """Vectors of four sums that an invocation has."""
        return self.high * self.wide // 4

    @property
    def memory(self) -> int:
        """Bytes of workgroup memory: the staged blocks, and afterwards the sums of all slices."""
        staged = (self.rows + self.columns) * self.depth * 4
        return max(staged, self.lanes * self.vectors * 16) if self.slices > 1 else staged


@dataclass(frozen=True)
class Rated:
    """speed: the part of a processor's rate that its multiplications reach. resident: workgroups that a processor runs at a
    time."""

    tile: Tile
    speed: float
    resident: int


TILES = (
    Rated(Tile(128, 128, 8, 8, 1, 16), 0.58, 2),
    Rated(Tile(128, 64, 8, 4, 1, 16), 0.5, 2),
    Rated(Tile(64, 128, 4, 8, 1, 16), 0.5, 2),
    Rated(Tile(64, 64, 4, 4, 1, 32), 0.38, 1),
    Rated(Tile(32, 64, 4, 4, 2, 32), 0.32, 4),
    Rated(Tile(64, 32, 4, 4, 2, 32), 0.36, 1),
    Rated(Tile(32, 32, 4, 4, 4, 64), 0.27, 2),
    Rated(Tile(16, 64, 4, 4, 4, 32), 0.24, 8),
    Rated(Tile(16, 32, 4, 4, 8, 64), 0.22, 3),
    Rated(Tile(32, 16, 4, 4, 8, 64), 0.28, 1),
    Rated(Tile(16, 16, 4, 4, 16, 64), 0.14, 6),
    Rated(Tile(4, 64, 4, 4, 16, 32), 0.14, 4),
    Rated(Tile(4, 16, 4, 4, 64, 128), 0.1, 1),
)
"""Tiles within 256 invocations and 16 KiB of workgroup memory. The figures fit the times of each in ResNet-50's convolutions of
one image on an NVIDIA H100; those of the first three fit its rates of large matmuls."""

PROCESSORS, RATE, LATENCY = 128, 224000.0, 0.3
"""Of a large GPU, as WebGPU does not tell: processors, multiplications of each in a microsecond, and microseconds of loading a
block. A smaller GPU loses little by smaller tiles."""

LAUNCH, BYTES = 6.0, 1.5e6
"""Microseconds of a further kernel; bytes that memory moves in a microsecond."""

WORTH = 0.9
"""A split that takes less than this part of the time is worth its memory."""


def _time(rated: Rated, batch: int, rows: int, columns: int, depth: int) -> float:
    """Microseconds: each processor multiplies the blocks of its workgroups, and those that it runs at a time wait together."""
    tile = rated.tile
    groups = -(-batch * -(-rows // tile.rows) * -(-columns // tile.columns) // PROCESSORS)
    multiplying = tile.rows * tile.columns * tile.depth / (RATE * rated.speed)
    waiting = -(-groups // rated.resident) * (LATENCY + multiplying)
    return -(-depth // tile.depth) * max(groups * multiplying, waiting)


def sizes_of(kernel: ContractionKernel) -> tuple[int, int, int, int]:
    """Batch, rows, columns, depth."""
    rows, columns = estimate(product([v.extent for v in kernel.rows])), estimate(kernel.column.extent)
    depth = estimate(product([v.extent for v in kernel.depth]))
    return estimate(product([v.extent for v in kernel.batch])), rows, columns, depth


def _fastest(*sizes: int) -> tuple[Tile, float]:
    rated = min(TILES, key=lambda each: _time(each, *sizes))
    return rated.tile, _time(rated, *sizes)


def tile(kernel: ContractionKernel) -> Tile | None:
    """The tile of least time; None if the plain loops suit the kernel, as there is nothing to share."""
    batch, rows, columns, depth = sizes_of(kernel)
    return None if columns < 4 or depth < 8 or rows == 0 else _fastest(batch, rows, columns, depth)[0]


def split_depth(kernel: ContractionKernel, counts: Sequence[int]) -> int:
    """The number of splits of a matmul's depth, one of `counts` or 1: partial results are stored, loaded and added."""
    batch, rows, columns, depth = sizes_of(kernel)
    if tile(kernel) is None or kernel.dtype != "float32" or batch * rows * columns == 0:
        return 1

    def time(parts: int) -> float:
        taken = _fastest(batch * parts, rows, columns, -(-depth // parts))[1]
        return taken if parts == 1 else taken + LAUNCH + 8 * parts * batch * rows * columns / BYTES

    best = min((1, *counts), key=time)
    return best if time(best) < WORTH * time(1) else 1


@dataclass(frozen=True)
class Shapes:
    """The choices of shapes for one kind of adapter. tile: of a contraction, None for plain loops. is_shared: True if a
    workgroup, not an invocation, computes an iteration of a kernel's parallel loops."""

    tile: Callable[[ContractionKernel], Tile | None]
    is_shared: Callable[[LoopKernel], bool]


GPU = Shapes(tile, is_shared)

FEW_ROWS = 8
"""Up to this many rows of a head, a workgroup computes a row of attention."""


def has_row_attention(kernel: AttentionKernel) -> bool:
    return estimate(product([v.extent for v in kernel.rows])) <= FEW_ROWS


PREFERENCES = Preferences(
    keep_rows=False,
    strided_columns=True,
    reduce_block=8192,
    long_rows=65536,
    repeat_small=True,
    repeat_reads=True,
    fuse_reductions=True,
    concat_operands=4,
    parallel_scatter=True,
    split_depth=split_depth,
)
"""A row's values are recomputed rather than kept, as workgroup memory is small. A launch costs as much as on CUDA."""

FIRST = "dilate,merge_groups,space_to_depth"
"""Passes before composites are decomposed."""
