"""Warp-specialised attention on Hopper: a producer warp copies keys and values to shared memory, consumer groups multiply.

The text of these Gluon functions is copied into the modules of kernels that call them (`program.py`); this file is not
imported. A group has 64 rows of queries. A kernel prints three functions from its description: `SEEN(start, row, own)` masks a
block's scores, `QUERY(row, own)` loads a group's queries, and `WRITE(row, norm, total, own)` stores the result. `own` has the
kernel's arguments.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def copy_blocks(first_from, second_from, blocks, begin, step, count):
    """The producer warp: copies `count` blocks of two matrices, every `step`-th from `begin` on, each as soon as its buffer is
    free."""
    a_shared, b_shared, a_ready, b_ready, a_free, b_free = blocks
    STAGES: gl.constexpr = a_shared.shape[0]
    WALKED: gl.constexpr = a_shared.shape[1]
    for j in range(count):
        stage = j % STAGES
        phase = (j // STAGES) & 1 ^ 1
        start = (begin + j * step) * WALKED
        mbarrier.wait(a_free.index(stage), phase)
        mbarrier.expect(a_ready.index(stage), first_from.block_type.nbytes)
        tma.async_copy_global_to_shared(first_from, [start, 0], a_ready.index(stage), a_shared.index(stage))
        mbarrier.wait(b_free.index(stage), phase)
        mbarrier.expect(b_ready.index(stage), second_from.block_type.nbytes)
        tma.async_copy_global_to_shared(second_from, [start, 0], b_ready.index(stage), b_shared.index(stage))


@gluon.jit
def matrix_map(matrix, WALKED: gl.constexpr, COLUMNS: gl.constexpr):
    """The tensor map of a matrix (pointer, rows, columns, row stride), for blocks of WALKED rows."""
    BLOCK: gl.constexpr = gl.NVMMASharedLayout.get_default_for([WALKED, COLUMNS], matrix[0].dtype.element_ty)
    return tma.make_tensor_descriptor(matrix[0], [matrix[1], matrix[2]], [matrix[3], 1], [WALKED, COLUMNS], BLOCK)


@gluon.jit
def allocate_blocks(
    first_from, second_from, WALKED: gl.constexpr, DEPTH: gl.constexpr, COLUMNS: gl.constexpr, STAGES: gl.constexpr,
    GROUPS: gl.constexpr,
):  # fmt: skip
    """Shared memory for STAGES blocks of two matrices, with barriers for full and free buffers."""
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    a_shared = gl.allocate_shared_memory(first_from.dtype, [STAGES, WALKED, DEPTH], first_from.layout)
    b_shared = gl.allocate_shared_memory(second_from.dtype, [STAGES, WALKED, COLUMNS], second_from.layout)
    a_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    b_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    a_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    b_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(a_ready.index(stage), count=1)
        mbarrier.init(b_ready.index(stage), count=1)
        mbarrier.init(a_free.index(stage), count=GROUPS)
        mbarrier.init(b_free.index(stage), count=GROUPS)
    return a_shared, b_shared, a_ready, b_ready, a_free, b_free


@gluon.jit
def softmax_block(score, top, weight, start, row, own, SEEN: gl.constexpr, HIDDEN: gl.constexpr, FACTOR: gl.constexpr):
    """(exponentials of a block's scores, the factor of previous sums, the largest score, the sum of exponentials)"""
    if HIDDEN:
        score = gl.where(SEEN(start, row, own), score, float("-inf"))
    higher = gl.maximum(top, gl.max(score, 1) * FACTOR)
    shift = higher
    if HIDDEN:  # all keys of a row may be masked so far
        shift = gl.where(higher == float("-inf"), 0.0, higher)
    p = gl.exp2(score * FACTOR - shift[:, None])
    rescale = gl.exp2(top - shift)
    return p, rescale, higher, weight * rescale + gl.sum(p, 1)


@gluon.jit
def attend_block(
    j, count, total, top, weight, queries, blocks, row, own,
    SEEN: gl.constexpr, HIDDEN: gl.constexpr, FACTOR: gl.constexpr,
):  # fmt: skip
    """Processes one block of keys: its scores, then its exponentials times the values."""
    k_shared, v_shared, k_ready, v_ready, k_free, v_free = blocks
    STAGES: gl.constexpr = k_shared.shape[0]
    KEYS: gl.constexpr = k_shared.shape[1]
    SCORES: gl.constexpr = top.type.layout.parent
    SUMS: gl.constexpr = total.type.layout
    stage = j % STAGES
    phase = (j // STAGES) & 1
    mbarrier.wait(k_ready.index(stage), phase)
    none = gl.full([64, KEYS], 0.0, gl.float32, SCORES)
    dots = warpgroup_mma(queries, k_shared.index(stage).permute((1, 0)), none, use_acc=False, is_async=True)
    dots = warpgroup_mma_wait(0, [dots])
    mbarrier.arrive(k_free.index(stage))
    p, rescale, top, weight = softmax_block(dots, top, weight, (count - 1 - j) * KEYS, row, own, SEEN, HIDDEN, FACTOR)
    left = gl.convert_layout(p.to(queries.dtype), gl.DotOperandLayout(0, SUMS, 2))
    total = total * gl.convert_layout(rescale, gl.SliceLayout(1, SUMS))[:, None]
    mbarrier.wait(v_ready.index(stage), phase)
    total = warpgroup_mma(left, v_shared.index(stage), total, is_async=True)
    total = warpgroup_mma_wait(0, [total])
    mbarrier.arrive(v_free.index(stage))
    return total, top, weight


@gluon.jit
def attend_block_ahead(
    j, count, left, total, top, weight, queries, blocks, row, own,
    SEEN: gl.constexpr, HIDDEN: gl.constexpr, FACTOR: gl.constexpr,
):  # fmt: skip
    """Computes one block's scores while the previous block's exponentials `left` are multiplied with its values."""
    k_shared, v_shared, k_ready, v_ready, k_free, v_free = blocks
    STAGES: gl.constexpr = k_shared.shape[0]
    KEYS: gl.constexpr = k_shared.shape[1]
    SCORES: gl.constexpr = top.type.layout.parent
    SUMS: gl.constexpr = total.type.layout
    stage = j % STAGES
    before = (j - 1) % STAGES
    mbarrier.wait(k_ready.index(stage), (j // STAGES) & 1)
    none = gl.full([64, KEYS], 0.0, gl.float32, SCORES)
    dots = warpgroup_mma(queries, k_shared.index(stage).permute((1, 0)), none, use_acc=False, is_async=True)
    mbarrier.wait(v_ready.index(before), ((j - 1) // STAGES) & 1)
    total = warpgroup_mma(left, v_shared.index(before), total, is_async=True)
    dots = warpgroup_mma_wait(1, [dots])
    mbarrier.arrive(k_free.index(stage))
    p, rescale, top, weight = softmax_block(dots, top, weight, (count - 1 - j) * KEYS, row, own, SEEN, HIDDEN, FACTOR)
    total = warpgroup_mma_wait(0, [total])
    mbarrier.arrive(v_free.index(before))
    total = total * gl.convert_layout(rescale, gl.SliceLayout(1, SUMS))[:, None]
    return gl.convert_layout(p.to(queries.dtype), gl.DotOperandLayout(0, SUMS, 2)), total, top, weight


@gluon.jit
def attend_rows(
    queries, blocks, row, own, count, hidden,
    SEEN: gl.constexpr, WRITE: gl.constexpr, FACTOR: gl.constexpr, AHEAD: gl.constexpr,
):  # fmt: skip
    """A consumer group: 64 rows from `row` on over `count` blocks of keys. The last `hidden` blocks have masked keys. AHEAD:
    matmuls with the values of a block overlap with the next block's scores."""
    k_shared, v_shared, k_ready, v_ready, k_free, _v_free = blocks
    KEYS: gl.constexpr = k_shared.shape[1]
    COLUMNS: gl.constexpr = v_shared.shape[2]
    STAGES: gl.constexpr = k_shared.shape[0]
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    top = gl.full([64], float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
    weight = gl.full([64], 0.0, gl.float32, gl.SliceLayout(1, SCORES))
    total = gl.full([64, COLUMNS], 0.0, gl.float32, SUMS)
    if AHEAD:
        if count > 0:
            mbarrier.wait(k_ready.index(0), 0)
            none = gl.full([64, KEYS], 0.0, gl.float32, SCORES)
            dots = warpgroup_mma(queries, k_shared.index(0).permute((1, 0)), none, use_acc=False, is_async=True)
            dots = warpgroup_mma_wait(0, [dots])
            mbarrier.arrive(k_free.index(0))
            start = (count - 1) * KEYS
            p, _rescale, top, weight = softmax_block(dots, top, weight, start, row, own, SEEN, True, FACTOR)
            left = gl.convert_layout(p.to(queries.dtype), gl.DotOperandLayout(0, SUMS, 2))
            for j in range(1, hidden):
                left, total, top, weight = attend_block_ahead(
                    j, count, left, total, top, weight, queries, blocks, row, own, SEEN, True, FACTOR,
                )  # fmt: skip
            for j in range(gl.maximum(hidden, 1), count):
                left, total, top, weight = attend_block_ahead(
                    j, count, left, total, top, weight, queries, blocks, row, own, SEEN, False, FACTOR,
                )  # fmt: skip
            last = count - 1
            mbarrier.wait(v_ready.index(last % STAGES), (last // STAGES) & 1)
            total = warpgroup_mma(left, v_shared.index(last % STAGES), total, is_async=True)
            total = warpgroup_mma_wait(0, [total])
    else:
        for j in range(hidden):
            total, top, weight = attend_block(
                j, count, total, top, weight, queries, blocks, row, own, SEEN, True, FACTOR,
            )  # fmt: skip
        for j in range(hidden, count):
            total, top, weight = attend_block(
                j, count, total, top, weight, queries, blocks, row, own, SEEN, False, FACTOR,
            )  # fmt: skip
    whole = gl.convert_layout(weight, gl.SliceLayout(1, SUMS))[:, None]
    total = gl.where(whole == 0, 0.0, total / whole).to(queries.dtype)
    norm = gl.where(weight == 0, float("-inf"), top + gl.log2(weight))
    STORED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (COLUMNS // 8), COLUMNS // 8], [4, 1], [1, 0])
    WRITE(row, norm, gl.convert_layout(total, STORED), own)


@gluon.jit
def attend(
    keys, values, own, row, stop, full,
    QUERY: gl.constexpr, SEEN: gl.constexpr, WRITE: gl.constexpr, FACTOR: gl.constexpr,
    WALKED: gl.constexpr, DEPTH: gl.constexpr, COLUMNS: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    REGISTERS: gl.constexpr, AHEAD: gl.constexpr,
):  # fmt: skip
    """GROUPS times 64 rows from `row` on. keys, values: matrices (pointer, rows, columns, row stride). stop: the end of the
    keys that any row sees; full: the end of the keys that all rows see."""
    DTYPE: gl.constexpr = keys[0].dtype.element_ty
    OWN: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, DEPTH], DTYPE)
    keys_from = matrix_map(keys, WALKED, DEPTH)
    values_from = matrix_map(values, WALKED, COLUMNS)
    queries = gl.allocate_shared_memory(DTYPE, [GROUPS, 64, DEPTH], OWN)
    blocks = allocate_blocks(keys_from, values_from, WALKED, DEPTH, COLUMNS, STAGES, GROUPS)
    LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (DEPTH // 8), DEPTH // 8], [4, 1], [1, 0])
    for group in gl.static_range(GROUPS):
        queries.index(group).store(gl.set_auto_layout(QUERY(row + group * 64, own), LOADED))
    fence_async_shared()
    count = gl.cdiv(stop, WALKED)
    hidden = count - full // WALKED
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (attend_rows, (queries.index(0), blocks, row, own, count, hidden, SEEN, WRITE, FACTOR, AHEAD)),
                (attend_rows, (queries.index(1), blocks, row + 64, own, count, hidden, SEEN, WRITE, FACTOR, AHEAD)),
                (copy_blocks, (keys_from, values_from, blocks, count - 1, -1, count)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.static_assert(GROUPS == 3)
        gl.warp_specialize(
            [
                (attend_rows, (queries.index(0), blocks, row, own, count, hidden, SEEN, WRITE, FACTOR, AHEAD)),
                (attend_rows, (queries.index(1), blocks, row + 64, own, count, hidden, SEEN, WRITE, FACTOR, AHEAD)),
                (attend_rows, (queries.index(2), blocks, row + 128, own, count, hidden, SEEN, WRITE, FACTOR, AHEAD)),
                (copy_blocks, (keys_from, values_from, blocks, count - 1, -1, count)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )


# ---- the backward pass, by keys ---------------------------------------------------------------------------------------------
@gluon.jit
def gradient_block(
    start, stage, phase, total, mixed, keys, values, blocks, key, own,
    SEEN: gl.constexpr, NORM: gl.constexpr, DOT: gl.constexpr, HIDDEN: gl.constexpr, FACTOR: gl.constexpr,
):  # fmt: skip
    """Adds the contributions of a block of rows from `start` on to the gradients of keys (`total`) and values (`mixed`)."""
    q_shared, o_shared, q_ready, o_ready, q_free, o_free = blocks
    WALKED: gl.constexpr = q_shared.shape[1]
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WALKED, 16])
    TOTAL: gl.constexpr = total.type.layout
    MIXED: gl.constexpr = mixed.type.layout
    norm = gl.set_auto_layout(NORM(start, own), gl.SliceLayout(0, SCORES))
    none = gl.full([64, WALKED], 0.0, gl.float32, SCORES)
    mbarrier.wait(q_ready.index(stage), phase)
    dots = warpgroup_mma(keys, q_shared.index(stage).permute((1, 0)), none, use_acc=False, is_async=True)
    mbarrier.wait(o_ready.index(stage), phase)
    slope = warpgroup_mma(values, o_shared.index(stage).permute((1, 0)), none, use_acc=False, is_async=True)
    dots = warpgroup_mma_wait(1, [dots])
    score = dots
    if HIDDEN:
        score = gl.where(SEEN(start, key, own), score, float("-inf"))
    p = gl.exp2(score * FACTOR - norm[None, :])
    dot = gl.set_auto_layout(DOT(start, own), gl.SliceLayout(0, SCORES))
    left = gl.convert_layout(p.to(keys.dtype), gl.DotOperandLayout(0, MIXED, 2))
    slope = warpgroup_mma_wait(0, [slope])
    mixed = warpgroup_mma(left, o_shared.index(stage), mixed, is_async=True)
    slope = p * (slope - dot[None, :])
    right = gl.convert_layout(slope.to(keys.dtype), gl.DotOperandLayout(0, TOTAL, 2))
    total = warpgroup_mma(right, q_shared.index(stage), total, is_async=True)
    mixed = warpgroup_mma_wait(1, [mixed])
    mbarrier.arrive(o_free.index(stage))
    total = warpgroup_mma_wait(0, [total])
    mbarrier.arrive(q_free.index(stage))
    return total, mixed


@gluon.jit
def gradient_keys(
    keys, values, blocks, key, own, walk,
    SEEN: gl.constexpr, NORM: gl.constexpr, DOT: gl.constexpr, WRITE: gl.constexpr, FACTOR: gl.constexpr,
    DERIVATIVE: gl.constexpr,
):  # fmt: skip
    """A consumer group: 64 keys from `key` on over blocks of rows. walk: (the first block, the number of blocks, the number of
    blocks with masks, which come first)."""
    first, count, hidden = walk
    STAGES: gl.constexpr = blocks[0].shape[0]
    WALKED: gl.constexpr = blocks[0].shape[1]
    DEPTH: gl.constexpr = blocks[0].shape[2]
    COLUMNS: gl.constexpr = blocks[1].shape[2]
    total = gl.full([64, DEPTH], 0.0, gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DEPTH, 16]))
    mixed = gl.full([64, COLUMNS], 0.0, gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16]))
    for j in range(hidden):
        total, mixed = gradient_block(
            (first + j) * WALKED, j % STAGES, (j // STAGES) & 1, total, mixed, keys, values, blocks, key, own,
            SEEN, NORM, DOT, True, FACTOR,
        )  # fmt: skip
    for j in range(hidden, count):
        total, mixed = gradient_block(
            (first + j) * WALKED, j % STAGES, (j // STAGES) & 1, total, mixed, keys, values, blocks, key, own,
            SEEN, NORM, DOT, False, FACTOR,
        )  # fmt: skip
    D_STORED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (DEPTH // 8), DEPTH // 8], [4, 1], [1, 0])
    Y_STORED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (COLUMNS // 8), COLUMNS // 8], [4, 1], [1, 0])
    total = gl.convert_layout((total * DERIVATIVE).to(keys.dtype), D_STORED)
    WRITE(key, total, gl.convert_layout(mixed.to(keys.dtype), Y_STORED), own)


@gluon.jit
def attend_gradient(
    queries, output_gradient, own, bounds, OWN: gl.constexpr, SEEN: gl.constexpr, NORM: gl.constexpr, DOT: gl.constexpr,
    WRITE: gl.constexpr, FACTOR: gl.constexpr, DERIVATIVE: gl.constexpr,
    WALKED: gl.constexpr, DEPTH: gl.constexpr, COLUMNS: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """GROUPS times 64 keys. queries, output_gradient: matrices as in `attend`. bounds: (the first key, the first row that sees
    any of the keys, the first row from which on all rows see all keys, the number of rows)."""
    key, begin, full, end = bounds
    DTYPE: gl.constexpr = queries[0].dtype.element_ty
    K_OWN: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, DEPTH], DTYPE)
    V_OWN: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, COLUMNS], DTYPE)
    queries_from = matrix_map(queries, WALKED, DEPTH)
    gradient_from = matrix_map(output_gradient, WALKED, COLUMNS)
    keys = gl.allocate_shared_memory(DTYPE, [GROUPS, 64, DEPTH], K_OWN)
    values = gl.allocate_shared_memory(DTYPE, [GROUPS, 64, COLUMNS], V_OWN)
    blocks = allocate_blocks(queries_from, gradient_from, WALKED, DEPTH, COLUMNS, STAGES, GROUPS)
    D_LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (DEPTH // 8), DEPTH // 8], [4, 1], [1, 0])
    Y_LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (COLUMNS // 8), COLUMNS // 8], [4, 1], [1, 0])
    for group in gl.static_range(GROUPS):
        k, v = OWN(key + group * 64, own)
        keys.index(group).store(gl.set_auto_layout(k, D_LOADED))
        values.index(group).store(gl.set_auto_layout(v, Y_LOADED))
    fence_async_shared()
    first = begin // WALKED
    count = gl.maximum(gl.cdiv(end, WALKED) - first, 0)
    hidden = gl.minimum(gl.maximum(gl.cdiv(full, WALKED) - first, 0), count)
    walk = (first, count, hidden)
    gl.static_assert(GROUPS == 2)
    gl.warp_specialize(
        [
            (gradient_keys, (
                keys.index(0), values.index(0), blocks, key, own, walk, SEEN, NORM, DOT, WRITE, FACTOR, DERIVATIVE,
            )),
            (gradient_keys, (
                keys.index(1), values.index(1), blocks, key + 64, own, walk, SEEN, NORM, DOT, WRITE, FACTOR, DERIVATIVE,
            )),
            (copy_blocks, (queries_from, gradient_from, blocks, first, 1, count)),
        ],
        [4, 1],
        [REGISTERS, 24],
    )  # fmt: skip
