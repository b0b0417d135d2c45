"""Persistent matmul on Hopper: a producer warp copies blocks of both operands to shared memory, consumer groups multiply.

Functions of Gluon, whose text goes into the modules of kernels that call them (`program.py`); nothing imports this file. A
program takes every n-th tile, n programs in all: while groups write the accumulators of one tile, blocks of the next one are
loaded. A tile has 64 rows for each group, and `SIDE` columns once or twice. `WRITE(part, row, column, total, own)` stores 64
rows and `SIDE` columns of a part of the depth; a kernel prints it from its description, and `own` holds its operands.
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
def tile_place(number, across, down, TOGETHER: gl.constexpr):
    """Part of the depth, row and column of a tile: TOGETHER rows of tiles are gone through column by column, so that what they
    read is still near."""
    tile = number % (across * down)
    first = tile // (TOGETHER * across) * TOGETHER
    height = gl.minimum(down - first, TOGETHER)
    within = tile % (TOGETHER * across)
    return number // (across * down), first + within % height, within // height


@gluon.jit
def bring_tiles(
    lhs_from, rhs_from, blocks, walk,
    TOGETHER: gl.constexpr, L_TURNED: gl.constexpr, R_TURNED: gl.constexpr, GROUPS: gl.constexpr,
    ACROSS: gl.constexpr,
):  # fmt: skip
    """The warp that copies: the blocks of each tile, as soon as there is room."""
    lhs_shared, rhs_shared, ready, free = blocks
    across, down, steps, parts = walk
    STAGES: gl.constexpr = ready.shape[0]
    DEPTH: gl.constexpr = lhs_shared.shape[1] if L_TURNED else lhs_shared.shape[2]
    SIDE: gl.constexpr = rhs_shared.shape[1] if R_TURNED else rhs_shared.shape[2]
    BYTES: gl.constexpr = GROUPS * lhs_from.block_type.nbytes + ACROSS * rhs_from.block_type.nbytes
    done = 0
    for tile in range(gl.program_id(0), across * down * parts, gl.num_programs(0)):
        part, high, wide = tile_place(tile, across, down, TOGETHER)
        row = high * (GROUPS * 64)
        column = wide * (ACROSS * SIDE)
        for step in range(steps):
            stage = done % STAGES
            here = ready.index(stage)
            mbarrier.wait(free.index(stage), (done // STAGES) & 1 ^ 1)
            mbarrier.expect(here, BYTES)
            depth = (part * steps + step) * DEPTH
            for group in gl.static_range(GROUPS):
                block = lhs_shared.index(stage * GROUPS + group)
                if L_TURNED:
                    tma.async_copy_global_to_shared(lhs_from, [depth, row + group * 64], here, block)
                else:
                    tma.async_copy_global_to_shared(lhs_from, [row + group * 64, depth], here, block)
            for half in gl.static_range(ACROSS):
                block = rhs_shared.index(stage * ACROSS + half)
                if R_TURNED:
                    tma.async_copy_global_to_shared(rhs_from, [column + half * SIDE, depth], here, block)
                else:
                    tma.async_copy_global_to_shared(rhs_from, [depth, column + half * SIDE], here, block)
            done += 1


@gluon.jit
def side_block(shared, number, TRANSPOSED_LENGTH: gl.constexpr):
    """[rows, depth] or [depth, columns]"""
    block = shared.index(number)
    if TRANSPOSED_LENGTH:
        block = block.permute((1, 0))
    return block


@gluon.jit
def write_tile(part, row, column, total, own, WRITE: gl.constexpr, ROUNDED: gl.constexpr, DTYPE: gl.constexpr):
    """ROUNDED: the sums are halves before anything else is done with them, and so lie side by side in registers."""
    SIDE: gl.constexpr = total.shape[1]
    STORED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (SIDE // 8), SIDE // 8], [4, 1], [1, 0])
    if ROUNDED:
        WRITE(part, row, column, gl.convert_layout(total.to(DTYPE), STORED), own)
    else:
        WRITE(part, row, column, total, own)


@gluon.jit
def multiply_tiles(
    blocks, walk, own, group: gl.constexpr,
    WRITE: gl.constexpr, TOGETHER: gl.constexpr, L_TURNED: gl.constexpr, R_TURNED: gl.constexpr, ROUNDED: gl.constexpr,
    GROUPS: gl.constexpr, ACROSS: gl.constexpr,
):  # fmt: skip
    """A group that multiplies: its 64 rows of each tile."""
    lhs_shared, rhs_shared, ready, free = blocks
    across, down, steps, parts = walk
    STAGES: gl.constexpr = ready.shape[0]
    SIDE: gl.constexpr = rhs_shared.shape[1] if R_TURNED else rhs_shared.shape[2]
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    done = 0
    for tile in range(gl.program_id(0), across * down * parts, gl.num_programs(0)):
        first = gl.full([64, SIDE], 0.0, gl.float32, SUMS)
        second = gl.full([64, SIDE], 0.0, gl.float32, SUMS)
        for step in range(steps):
            stage = done % STAGES
            mbarrier.wait(ready.index(stage), (done // STAGES) & 1)
            left = side_block(lhs_shared, stage * GROUPS + group, L_TURNED)
            first = warpgroup_mma(left, side_block(rhs_shared, stage * ACROSS, R_TURNED), first, is_async=True)
            if ACROSS == 2:
                second = warpgroup_mma(left, side_block(rhs_shared, stage * 2 + 1, R_TURNED), second, is_async=True)
            first, second = warpgroup_mma_wait(ACROSS, [first, second])
            mbarrier.arrive(
                free.index((done + STAGES - 1) % STAGES), pred=step > 0
            )  # the products of the step before are done
            done += 1
        first, second = warpgroup_mma_wait(0, [first, second])
        mbarrier.arrive(free.index((done + STAGES - 1) % STAGES))
        part, high, wide = tile_place(tile, across, down, TOGETHER)
        row = (high * GROUPS + group) * 64
        column = wide * (ACROSS * SIDE)
        write_tile(part, row, column, first, own, WRITE, ROUNDED, lhs_shared.dtype)
        if ACROSS == 2:
            write_tile(part, row, column + SIDE, second, own, WRITE, ROUNDED, lhs_shared.dtype)


@gluon.jit
def multiply(
    lhs, rhs, own, extents, WRITE: gl.constexpr, L_TURNED: gl.constexpr, R_TURNED: gl.constexpr, ROUNDED: gl.constexpr,
    TOGETHER: gl.constexpr, DEPTH: gl.constexpr, SIDE: gl.constexpr, ACROSS: gl.constexpr, STAGES: gl.constexpr,
    GROUPS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Every so many-th tile of a product. lhs, rhs: (pointer, rows, columns, elements from row to row) of a matrix each, which is
    [depth, rows] or [columns, depth] where it is turned; extents: (rows, columns, depth of a part, parts)."""
    rows, columns, depth, parts = extents
    DTYPE: gl.constexpr = lhs[0].dtype.element_ty
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    if L_TURNED:
        lhs_from = matrix_map(lhs, DEPTH, 64)
    else:
        lhs_from = matrix_map(lhs, 64, DEPTH)
    if R_TURNED:
        rhs_from = matrix_map(rhs, SIDE, DEPTH)
    else:
        rhs_from = matrix_map(rhs, DEPTH, SIDE)
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
    across, down = gl.cdiv(columns, ACROSS * SIDE).to(gl.int32), gl.cdiv(rows, GROUPS * 64).to(gl.int32)
    walk = (across, down, gl.cdiv(depth, DEPTH).to(gl.int32), parts.to(gl.int32))
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (multiply_tiles, (blocks, walk, own, 0, WRITE, TOGETHER, L_TURNED, R_TURNED, ROUNDED, GROUPS, ACROSS)),
                (multiply_tiles, (blocks, walk, own, 1, WRITE, TOGETHER, L_TURNED, R_TURNED, ROUNDED, GROUPS, ACROSS)),
                (bring_tiles, (lhs_from, rhs_from, blocks, walk, TOGETHER, L_TURNED, R_TURNED, GROUPS, ACROSS)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.static_assert(GROUPS == 3)
        gl.warp_specialize(
            [
                (multiply_tiles, (blocks, walk, own, 0, WRITE, TOGETHER, L_TURNED, R_TURNED, ROUNDED, GROUPS, ACROSS)),
                (multiply_tiles, (blocks, walk, own, 1, WRITE, TOGETHER, L_TURNED, R_TURNED, ROUNDED, GROUPS, ACROSS)),
                (multiply_tiles, (blocks, walk, own, 2, WRITE, TOGETHER, L_TURNED, R_TURNED, ROUNDED, GROUPS, ACROSS)),
                (bring_tiles, (lhs_from, rhs_from, blocks, walk, TOGETHER, L_TURNED, R_TURNED, GROUPS, ACROSS)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
