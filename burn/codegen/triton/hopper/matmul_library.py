"""Persistent matmul on Hopper: a producer warp copies blocks of both operands to shared memory, consumer groups multiply.

The text of these Gluon functions is copied into the modules of kernels that call them (`program.py`); this file is not
imported. Each of n programs computes every n-th tile: while groups store the accumulators of one tile, blocks of the next one
are loaded. A tile has 64 rows for each group, and `ACROSS` times `BLOCK_COLUMNS` columns. `WRITE(part, row, column, total,
own)` stores 64 rows and `BLOCK_COLUMNS` columns of a part of the depth; a kernel prints it from its description, and `own` has
the kernel's arguments.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from burn.codegen.triton.hopper.attention_library import matrix_map


@gluon.jit
def tile_index(number, across, down, GROUP_SIZE: gl.constexpr):
    """(part of the depth, row, column) of a tile. GROUP_SIZE rows of tiles are processed column by column, so that their
    operands stay in the cache."""
    tile = number % (across * down)
    first = tile // (GROUP_SIZE * across) * GROUP_SIZE
    height = gl.minimum(down - first, GROUP_SIZE)
    within = tile % (GROUP_SIZE * across)
    return number // (across * down), first + within % height, within // height


@gluon.jit
def copy_tiles(
    lhs_from, rhs_from, blocks, walk,
    GROUP_SIZE: gl.constexpr, L_TRANSPOSED: gl.constexpr, R_TRANSPOSED: gl.constexpr, GROUPS: gl.constexpr,
    ACROSS: gl.constexpr,
):  # fmt: skip
    """The producer warp: copies the blocks of each tile, as soon as buffers are free."""
    lhs_shared, rhs_shared, ready, free = blocks
    across, down, steps, parts = walk
    STAGES: gl.constexpr = ready.shape[0]
    DEPTH: gl.constexpr = lhs_shared.shape[1] if L_TRANSPOSED else lhs_shared.shape[2]
    BLOCK_COLUMNS: gl.constexpr = rhs_shared.shape[1] if R_TRANSPOSED else rhs_shared.shape[2]
    BYTES: gl.constexpr = GROUPS * lhs_from.block_type.nbytes + ACROSS * rhs_from.block_type.nbytes
    done = 0
    for tile in range(gl.program_id(0), across * down * parts, gl.num_programs(0)):
        part, high, wide = tile_index(tile, across, down, GROUP_SIZE)
        row = high * (GROUPS * 64)
        column = wide * (ACROSS * BLOCK_COLUMNS)
        for step in range(steps):
            stage = done % STAGES
            here = ready.index(stage)
            mbarrier.wait(free.index(stage), (done // STAGES) & 1 ^ 1)
            mbarrier.expect(here, BYTES)
            depth = (part * steps + step) * DEPTH
            for group in gl.static_range(GROUPS):
                block = lhs_shared.index(stage * GROUPS + group)
                if L_TRANSPOSED:
                    tma.async_copy_global_to_shared(lhs_from, [depth, row + group * 64], here, block)
                else:
                    tma.async_copy_global_to_shared(lhs_from, [row + group * 64, depth], here, block)
            for half in gl.static_range(ACROSS):
                block = rhs_shared.index(stage * ACROSS + half)
                if R_TRANSPOSED:
                    tma.async_copy_global_to_shared(rhs_from, [column + half * BLOCK_COLUMNS, depth], here, block)
                else:
                    tma.async_copy_global_to_shared(rhs_from, [depth, column + half * BLOCK_COLUMNS], here, block)
            done += 1


@gluon.jit
def operand_block(shared, number, TRANSPOSED: gl.constexpr):
    """A block of an operand: [rows, depth] or [depth, columns]."""
    block = shared.index(number)
    if TRANSPOSED:
        block = block.permute((1, 0))
    return block


@gluon.jit
def write_pieces(part, row, column, total, own, WRITE: gl.constexpr, PIECE: gl.constexpr):
    """PIECE columns at a time, so that what the epilogue loads for them fits the registers beside the accumulators."""
    HALF: gl.constexpr = total.shape[1] // 2
    if HALF < PIECE:
        WRITE(part, row, column, total, own)
    else:
        SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
        left, right = total.reshape([64, 2, HALF]).permute((0, 2, 1)).split()  # a thread's registers, without moves
        left = gl.convert_layout(left, SUMS, assert_trivial=True)
        right = gl.convert_layout(right, SUMS, assert_trivial=True)
        write_pieces(part, row, column, left, own, WRITE, PIECE)
        write_pieces(part, row, column + HALF, right, own, WRITE, PIECE)


@gluon.jit
def write_tile(
    part, row, column, total, own,
    WRITE: gl.constexpr, ROUNDED: gl.constexpr, DTYPE: gl.constexpr, PIECE: gl.constexpr,
):  # fmt: skip
    """ROUNDED: accumulators are rounded to half precision first, so that a thread's elements are contiguous."""
    BLOCK_COLUMNS: gl.constexpr = total.shape[1]
    STORED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BLOCK_COLUMNS // 8), BLOCK_COLUMNS // 8], [4, 1], [1, 0])
    if ROUNDED:
        WRITE(part, row, column, gl.convert_layout(total.to(DTYPE), STORED), own)
    else:
        write_pieces(part, row, column, total, own, WRITE, PIECE)


@gluon.jit
def multiply_tiles(
    blocks, walk, own, group: gl.constexpr,
    WRITE: gl.constexpr, GROUP_SIZE: gl.constexpr, L_TRANSPOSED: gl.constexpr, R_TRANSPOSED: gl.constexpr, ROUNDED: gl.constexpr,
    GROUPS: gl.constexpr, ACROSS: gl.constexpr, PIECE: gl.constexpr,
):  # fmt: skip
    """A consumer group: multiplies its 64 rows of each tile."""
    lhs_shared, rhs_shared, ready, free = blocks
    across, down, steps, parts = walk
    STAGES: gl.constexpr = ready.shape[0]
    BLOCK_COLUMNS: gl.constexpr = rhs_shared.shape[1] if R_TRANSPOSED else rhs_shared.shape[2]
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_COLUMNS, 16])
    done = 0
    for tile in range(gl.program_id(0), across * down * parts, gl.num_programs(0)):
        first = gl.full([64, BLOCK_COLUMNS], 0.0, gl.float32, SUMS)
        second = gl.full([64, BLOCK_COLUMNS], 0.0, gl.float32, SUMS)
        for step in range(steps):
            stage = done % STAGES
            mbarrier.wait(ready.index(stage), (done // STAGES) & 1)
            left = operand_block(lhs_shared, stage * GROUPS + group, L_TRANSPOSED)
            first = warpgroup_mma(left, operand_block(rhs_shared, stage * ACROSS, R_TRANSPOSED), first, is_async=True)
            if ACROSS == 2:
                second = warpgroup_mma(
                    left, operand_block(rhs_shared, stage * 2 + 1, R_TRANSPOSED), second, is_async=True
                )
            first, second = warpgroup_mma_wait(ACROSS, [first, second])
            mbarrier.arrive(
                free.index((done + STAGES - 1) % STAGES), pred=step > 0
            )  # the previous step's multiplications are done
            done += 1
        first, second = warpgroup_mma_wait(0, [first, second])
        mbarrier.arrive(free.index((done + STAGES - 1) % STAGES))
        part, high, wide = tile_index(tile, across, down, GROUP_SIZE)
        row = (high * GROUPS + group) * 64
        column = wide * (ACROSS * BLOCK_COLUMNS)
        write_tile(part, row, column, first, own, WRITE, ROUNDED, lhs_shared.dtype, PIECE)
        if ACROSS == 2:
            write_tile(part, row, column + BLOCK_COLUMNS, second, own, WRITE, ROUNDED, lhs_shared.dtype, PIECE)


@gluon.jit
def multiply(
    lhs, rhs, own, extents, WRITE: gl.constexpr, L_TRANSPOSED: gl.constexpr, R_TRANSPOSED: gl.constexpr, ROUNDED: gl.constexpr,
    GROUP_SIZE: gl.constexpr, DEPTH: gl.constexpr, BLOCK_COLUMNS: gl.constexpr, ACROSS: gl.constexpr, STAGES: gl.constexpr,
    GROUPS: gl.constexpr, REGISTERS: gl.constexpr, PIECE: gl.constexpr,
):  # fmt: skip
    """Computes every n-th tile of a matmul. lhs, rhs: matrices (pointer, rows, columns, row stride), [depth, rows] or [columns,
    depth] if transposed. extents: (rows, columns, depth of a part, parts)."""
    rows, columns, depth, parts = extents
    DTYPE: gl.constexpr = lhs[0].dtype.element_ty
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    if L_TRANSPOSED:
        lhs_from = matrix_map(lhs, DEPTH, 64)
    else:
        lhs_from = matrix_map(lhs, 64, DEPTH)
    if R_TRANSPOSED:
        rhs_from = matrix_map(rhs, BLOCK_COLUMNS, DEPTH)
    else:
        rhs_from = matrix_map(rhs, DEPTH, BLOCK_COLUMNS)
    L_SHAPE: gl.constexpr = [STAGES * GROUPS] + lhs_from.block_type.shape  # noqa: RUF005 (Triton knows no stars)
    R_SHAPE: gl.constexpr = [STAGES * ACROSS] + rhs_from.block_type.shape  # noqa: RUF005
    lhs_shared = gl.allocate_shared_memory(DTYPE, L_SHAPE, lhs_from.layout)
    rhs_shared = gl.allocate_shared_memory(DTYPE, R_SHAPE, rhs_from.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=GROUPS)
    blocks = (lhs_shared, rhs_shared, ready, free)
    across, down = gl.cdiv(columns, ACROSS * BLOCK_COLUMNS).to(gl.int32), gl.cdiv(rows, GROUPS * 64).to(gl.int32)
    walk = (across, down, gl.cdiv(depth, DEPTH).to(gl.int32), parts.to(gl.int32))
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (multiply_tiles, (
                    blocks, walk, own, 0, WRITE, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, ROUNDED, GROUPS, ACROSS, PIECE,
                )),
                (multiply_tiles, (
                    blocks, walk, own, 1, WRITE, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, ROUNDED, GROUPS, ACROSS, PIECE,
                )),
                (copy_tiles, (
                    lhs_from, rhs_from, blocks, walk, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, GROUPS, ACROSS,
                )),
            ],
            [4, 1],
            [REGISTERS, 24],
        )  # fmt: skip
    else:
        gl.static_assert(GROUPS == 3)
        gl.warp_specialize(
            [
                (multiply_tiles, (
                    blocks, walk, own, 0, WRITE, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, ROUNDED, GROUPS, ACROSS, PIECE,
                )),
                (multiply_tiles, (
                    blocks, walk, own, 1, WRITE, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, ROUNDED, GROUPS, ACROSS, PIECE,
                )),
                (multiply_tiles, (
                    blocks, walk, own, 2, WRITE, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, ROUNDED, GROUPS, ACROSS, PIECE,
                )),
                (copy_tiles, (
                    lhs_from, rhs_from, blocks, walk, GROUP_SIZE, L_TRANSPOSED, R_TRANSPOSED, GROUPS, ACROSS,
                )),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )  # fmt: skip
