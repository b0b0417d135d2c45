"""Gradients of convolutions' weights on Hopper: a producer warp copies boxes of pixels to shared memory, consumer groups
multiply.

The text of these Gluon functions is copied into the modules of kernels that call them (`program.py`); this file is not
imported. A step multiplies a box of pixels: `BW` neighbours in a row of `BN` images. Steps go down the rows of an image, strip by
strip. The sums of a tile are [MB outputs, ACROSS blocks of NB channels] for each of `GROUPS` groups.

If `RING`, groups have neighbouring taps in one column of the window. The row of the image that one tap reads is read by the next
tap one step later, so a box of the image is copied once for all groups. Otherwise each group has its own boxes.

If `EVEN`, each of the `parts` of a tile is a program, so that programs of all tiles read the same boxes at the same time.
Otherwise all tiles' steps form one sequence, and each program computes a share of it: the tail of one tile, whole tiles, the head
of another. Parts of a tile that no program computes are zero.

`WRITE(part, row, tap, channel, output, total, own)` stores sums of a part of a tile. A kernel prints it from its description, and
`own` has the kernel's arguments.
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


@gluon.jit
def image_map(image, BN: gl.constexpr, BW: gl.constexpr, NB: gl.constexpr):
    """The tensor map of an image (pointer, sizes, strides) with axes batch, row, tap, column and channel."""
    DTYPE: gl.constexpr = image[0].dtype.element_ty
    BLOCK: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, 1, 1, BW, NB], DTYPE)
    n, h, s, w, c = image[1]
    n_step, h_step, s_step, w_step = image[2]
    return tma.make_tensor_descriptor(
        image[0], [n, h, s, w, c], [n_step, h_step, s_step, w_step, 1], [BN, 1, 1, BW, NB], BLOCK
    )


@gluon.jit
def cotangent_map(cotangent, BN: gl.constexpr, BW: gl.constexpr, MB: gl.constexpr):
    """The tensor map of a convolution's cotangent (pointer, sizes, strides) with axes batch, row, column and output."""
    DTYPE: gl.constexpr = cotangent[0].dtype.element_ty
    BLOCK: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, 1, BW, MB], DTYPE)
    n, h, w, k = cotangent[1]
    n_step, h_step, w_step = cotangent[2]
    return tma.make_tensor_descriptor(cotangent[0], [n, h, w, k], [n_step, h_step, w_step, 1], [BN, 1, BW, MB], BLOCK)


@gluon.jit
def tile_of_windows(tile, group, counts, RING: gl.constexpr, GROUPS: gl.constexpr, ACROSS: gl.constexpr):
    """(row of the window, number of the first block of sums, block of outputs) of a group in a tile. A number is one of a tap in
    a row of the window and a block of channels. Neighbouring numbers are neighbouring taps, whose boxes overlap."""
    _, across, outputs = counts
    sets = across // ACROSS
    unit = tile // outputs
    if RING:
        return unit // sets * GROUPS + group, unit % sets * ACROSS, tile % outputs
    unit = unit * GROUPS + group
    return unit // sets, unit % sets * ACROSS, tile % outputs


@gluon.jit
def copy_pixels(
    image_from, cotangent_from, blocks, walk, counts, moves,
    RING: gl.constexpr, GROUPS: gl.constexpr, ACROSS: gl.constexpr, BN: gl.constexpr, BW: gl.constexpr,
):  # fmt: skip
    """The producer warp: copies the boxes of each step, as soon as buffers are free."""
    image_shared, cotangent_shared, image_ready, image_free, cotangent_ready, cotangent_free = blocks
    first, last, _share, span, steps, height, wide, _parts = walk
    h_step, h_tap, h_low, s_tap, w_tap, w_low, taps = moves
    STAGES: gl.constexpr = cotangent_ready.shape[0]
    ENTRIES: gl.constexpr = image_ready.shape[0]
    WINDOW: gl.constexpr = GROUPS if RING else 1
    BOXES: gl.constexpr = ACROSS if RING else GROUPS * ACROSS
    NB: gl.constexpr = image_from.block_type.shape[4]
    MB: gl.constexpr = cotangent_from.block_type.shape[3]
    entry = 0
    done = 0
    at = first
    while at < last:
        tile = at // span
        begin = at - tile * span
        end = gl.minimum(span, begin + last - at)
        stop = gl.minimum(steps, end)
        for step in range(begin, stop):
            h = step % height
            strip = step // height
            n = strip // wide * BN
            w = strip % wide * BW
            for below in range(gl.where((h == 0) | (step == begin), 0, WINDOW - 1), WINDOW):
                slot = entry % ENTRIES
                mbarrier.wait(image_free.index(slot), (entry // ENTRIES) & 1 ^ 1)
                mbarrier.expect(image_ready.index(slot), BOXES * image_from.block_type.nbytes)
                for box in gl.static_range(BOXES):
                    row, block, output = tile_of_windows(tile, box // ACROSS, counts, RING, GROUPS, ACROSS)
                    block += box % ACROSS
                    tap = block % taps
                    tma.async_copy_global_to_shared(
                        image_from,
                        [
                            n, h * h_step + (row + below) * h_tap + h_low, tap * s_tap, w + tap * w_tap + w_low,
                            block // taps * NB,
                        ],
                        image_ready.index(slot),
                        image_shared.index(slot * BOXES + box)._reinterpret(
                            image_from.dtype, image_from.block_type.shape, image_from.layout
                        ),
                    )  # fmt: skip
                entry += 1
            slot = done % STAGES
            mbarrier.wait(cotangent_free.index(slot), (done // STAGES) & 1 ^ 1)
            mbarrier.expect(cotangent_ready.index(slot), cotangent_from.block_type.nbytes)
            row, block, output = tile_of_windows(tile, 0, counts, RING, GROUPS, ACROSS)
            tma.async_copy_global_to_shared(
                cotangent_from,
                [n, h, w, output * MB],
                cotangent_ready.index(slot),
                cotangent_shared.index(slot)._reinterpret(
                    cotangent_from.dtype, cotangent_from.block_type.shape, cotangent_from.layout
                ),
            )
            done += 1
        at += end - begin


@gluon.jit
def write_sums(
    part, parts, complete, corner, counts, taps, total, own, NUMBER: gl.constexpr, WRITE: gl.constexpr,
    MB: gl.constexpr, NB: gl.constexpr,
):  # fmt: skip
    """Stores block NUMBER of a group's sums. complete: the tile ends here, and its other parts are zero."""
    row, block, output = corner
    rows = counts[0]
    if row < rows:
        block += NUMBER
        tap = block % taps
        channel = block // taps * NB
        WRITE(part, row, tap, channel, output * MB, total, own)
        if complete:
            for other in range(part + 1, parts):
                WRITE(other, row, tap, channel, output * MB, gl.zeros_like(total), own)


@gluon.jit
def wait_for(COUNT: gl.constexpr, sums, second, third, ACROSS: gl.constexpr):
    """Waits until at most COUNT multiplications are unfinished. Only ACROSS of the sums are in use."""
    if ACROSS == 1:
        sums = warpgroup_mma_wait(COUNT, [sums])
    elif ACROSS == 2:
        sums, second = warpgroup_mma_wait(COUNT, [sums, second])
    else:
        sums, second, third = warpgroup_mma_wait(COUNT, [sums, second, third])
    return sums, second, third


@gluon.jit
def sum_pixels(
    blocks, walk, counts, moves, own, group, WRITE: gl.constexpr,
    RING: gl.constexpr, GROUPS: gl.constexpr, ACROSS: gl.constexpr, HELD: gl.constexpr,
):  # fmt: skip
    """A consumer group. HELD: the cotangent is multiplied from registers, which all blocks of channels share."""
    image_shared, cotangent_shared, image_ready, image_free, cotangent_ready, cotangent_free = blocks
    first, last, share, span, steps, height, _wide, parts = walk
    taps = moves[6]
    STAGES: gl.constexpr = cotangent_ready.shape[0]
    ENTRIES: gl.constexpr = image_ready.shape[0]
    WINDOW: gl.constexpr = GROUPS if RING else 1
    BOXES: gl.constexpr = ACROSS if RING else GROUPS * ACROSS
    NB: gl.constexpr = image_shared.shape[2]
    MB: gl.constexpr = cotangent_shared.shape[2]
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, NB, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    # Boxes of a strip's last window are in use until the first window of the next one is multiplied.
    gl.static_assert((WINDOW if HELD else 2 * WINDOW) <= ENTRIES)
    entry = 0
    done = 0
    at = first
    while at < last:
        tile = at // span
        begin = at - tile * span
        end = gl.minimum(span, begin + last - at)
        stop = gl.minimum(steps, end)
        sums = gl.full([MB, NB], 0.0, gl.float32, SUMS)
        second = gl.full([MB, NB], 0.0, gl.float32, SUMS)
        third = gl.full([MB, NB], 0.0, gl.float32, SUMS)
        for step in range(begin, stop):
            closing = (step % height == height - 1) | (step == stop - 1)
            slot = done % STAGES
            mine = entry + (group if RING else 0)
            mbarrier.wait(cotangent_ready.index(slot), (done // STAGES) & 1)
            left = cotangent_shared.index(slot).permute((1, 0))
            if HELD:
                left = left.load(LEFT)
            mbarrier.wait(image_ready.index(mine % ENTRIES), (mine // ENTRIES) & 1)
            box = mine % ENTRIES * BOXES + (0 if RING else group * ACROSS)
            sums = warpgroup_mma(left, image_shared.index(box), sums, is_async=True)
            if ACROSS > 1:
                second = warpgroup_mma(left, image_shared.index(box + 1), second, is_async=True)
            if ACROSS > 2:
                third = warpgroup_mma(left, image_shared.index(box + 2), third, is_async=True)
            if HELD:
                sums, second, third = wait_for(0, sums, second, third, ACROSS)
                mbarrier.arrive(cotangent_free.index(slot))
                mbarrier.arrive(image_free.index(entry % ENTRIES))
                if closing:
                    for below in gl.static_range(1, WINDOW):
                        mbarrier.arrive(image_free.index((entry + below) % ENTRIES))
            else:
                sums, second, third = wait_for(ACROSS, sums, second, third, ACROSS)
                # The previous step's multiplications are done. It was no strip's last one if its window goes on here.
                before = step > begin
                mbarrier.arrive(cotangent_free.index((done + STAGES - 1) % STAGES), pred=before)
                back = gl.where(step % height == 0, WINDOW, 1)
                mbarrier.arrive(image_free.index((entry + ENTRIES - back) % ENTRIES), pred=before)
                if before & (step % height == 0):
                    for below in gl.static_range(1, WINDOW):
                        mbarrier.arrive(image_free.index((entry + ENTRIES - WINDOW + below) % ENTRIES))
            entry += gl.where(closing, WINDOW, 1)
            done += 1
        if not HELD:
            sums, second, third = wait_for(0, sums, second, third, ACROSS)
            some = begin < stop
            mbarrier.arrive(cotangent_free.index((done + STAGES - 1) % STAGES), pred=some)
            for below in gl.static_range(WINDOW):
                mbarrier.arrive(image_free.index((entry + ENTRIES - WINDOW + below) % ENTRIES), pred=some)
        part = gl.program_id(0) - tile * span // share
        corner = tile_of_windows(tile, group, counts, RING, GROUPS, ACROSS)
        complete = end == span
        write_sums(part, parts, complete, corner, counts, taps, sums, own, 0, WRITE, MB, NB)
        if ACROSS > 1:
            write_sums(part, parts, complete, corner, counts, taps, second, own, 1, WRITE, MB, NB)
        if ACROSS > 2:
            write_sums(part, parts, complete, corner, counts, taps, third, own, 2, WRITE, MB, NB)
        at += end - begin


@gluon.jit
def sum_windows(
    image, cotangent, own, sizes, moves, WRITE: gl.constexpr,
    RING: gl.constexpr, EVEN: gl.constexpr, GROUPS: gl.constexpr, ACROSS: gl.constexpr, HELD: gl.constexpr, MB: gl.constexpr,
    NB: gl.constexpr, BN: gl.constexpr, BW: gl.constexpr, STAGES: gl.constexpr, ENTRIES: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """Computes a program's share of the gradient of a weight. image, cotangent: (pointer, sizes, strides), see `image_map` and
    `cotangent_map`. sizes: (rows of the window, taps in a row, channels, outputs, parts). moves: see `Pixels.moves` in
    pixels.py."""
    DTYPE: gl.constexpr = image[0].dtype.element_ty
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    BOXES: gl.constexpr = ACROSS if RING else GROUPS * ACROSS
    PIXELS: gl.constexpr = BN * BW
    image_from = image_map(image, BN, BW, NB)
    cotangent_from = cotangent_map(cotangent, BN, BW, MB)
    I_BLOCK: gl.constexpr = gl.NVMMASharedLayout.get_default_for([PIXELS, NB], DTYPE)
    C_BLOCK: gl.constexpr = gl.NVMMASharedLayout.get_default_for([PIXELS, MB], DTYPE)
    image_shared = gl.allocate_shared_memory(DTYPE, [ENTRIES * BOXES, PIXELS, NB], I_BLOCK)
    cotangent_shared = gl.allocate_shared_memory(DTYPE, [STAGES, PIXELS, MB], C_BLOCK)
    image_ready = gl.allocate_shared_memory(gl.int64, [ENTRIES, 1], BARRIER)
    image_free = gl.allocate_shared_memory(gl.int64, [ENTRIES, 1], BARRIER)
    cotangent_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    cotangent_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(ENTRIES):
        mbarrier.init(image_ready.index(stage), count=1)
        mbarrier.init(image_free.index(stage), count=GROUPS)
    for stage in gl.static_range(STAGES):
        mbarrier.init(cotangent_ready.index(stage), count=1)
        mbarrier.init(cotangent_free.index(stage), count=GROUPS)
    blocks = (image_shared, cotangent_shared, image_ready, image_free, cotangent_ready, cotangent_free)
    rows, taps, channels, outputs, parts = sizes
    n, height, width, _ = cotangent[1]
    channel_blocks = gl.cdiv(channels, NB).to(gl.int32)
    across = taps.to(gl.int32) * channel_blocks
    sets = across // ACROSS
    output_blocks = gl.cdiv(outputs, MB).to(gl.int32)
    if RING:
        tiles = gl.cdiv(rows, GROUPS).to(gl.int32) * sets * output_blocks
    else:
        tiles = gl.cdiv(rows.to(gl.int32) * sets, GROUPS) * output_blocks
    wide = gl.cdiv(width, BW).to(gl.int32)
    steps = gl.cdiv(n, BN).to(gl.int32) * wide * height.to(gl.int32)
    parts = parts.to(gl.int32)
    if EVEN:
        share = gl.cdiv(steps, parts)
        span = share * parts
    else:
        span = steps
        share = gl.maximum(gl.cdiv(tiles * steps, gl.num_programs(0)), gl.cdiv(steps - 1, parts - 1))
    first = gl.program_id(0) * share
    last = gl.minimum(first + share, tiles * span)
    walk = (first, last, share, span, steps, height.to(gl.int32), wide, parts)
    counts = (rows.to(gl.int32), across, output_blocks)
    steady = (moves[0], moves[1], moves[2], moves[3], moves[4], moves[5], taps.to(gl.int32))
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (sum_pixels, (blocks, walk, counts, steady, own, 0, WRITE, RING, GROUPS, ACROSS, HELD)),
                (sum_pixels, (blocks, walk, counts, steady, own, 1, WRITE, RING, GROUPS, ACROSS, HELD)),
                (copy_pixels, (image_from, cotangent_from, blocks, walk, counts, steady, RING, GROUPS, ACROSS, BN, BW)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.static_assert(GROUPS == 3)
        gl.warp_specialize(
            [
                (sum_pixels, (blocks, walk, counts, steady, own, 0, WRITE, RING, GROUPS, ACROSS, HELD)),
                (sum_pixels, (blocks, walk, counts, steady, own, 1, WRITE, RING, GROUPS, ACROSS, HELD)),
                (sum_pixels, (blocks, walk, counts, steady, own, 2, WRITE, RING, GROUPS, ACROSS, HELD)),
                (copy_pixels, (image_from, cotangent_from, blocks, walk, counts, steady, RING, GROUPS, ACROSS, BN, BW)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
