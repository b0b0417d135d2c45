"""Lowering preferences: a back end's choice among correct descriptions of a group as kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.dialect.dims import Dim
from burn.kernels.body import ContractionKernel
from burn.kernels.layouts import Convolution


@dataclass(frozen=True)
class PointwiseRegion:
    """Convolutions of one tap, connected by pointwise ops. pixels: those of all images of a batch. The other numbers are those of
    one pixel: multiplications, elements that copies between the layouts of images would read, and elements of images between two
    convolutions. outputs: the channels of each convolution's result."""

    dtype: str
    pixels: Dim
    multiplications: int
    copied: int
    between: int
    outputs: tuple[Dim, ...]


@dataclass(frozen=True)
class GroupedConvolution:
    """A convolution of several groups, each with `inputs` and `outputs` channels, under windows of these sizes. `dtype`: its
    operands' type; `sums`: that of its sums. `gradient`: of its weight, rather than the convolution."""

    groups: int
    inputs: int
    outputs: int
    window: tuple[Dim, ...]
    dtype: str
    sums: str
    gradient: bool = False


@dataclass(frozen=True)
class SplitTaps:
    """The least gain for which an axis of a convolution is divided by the taps that read padding there. It saves a part of the
    multiplications, and so many that they pay for further kernels and for joining their results."""

    part: float
    multiplications: int

    def pays(self, part: float, work: float) -> bool:
        """part: of an op's multiplications, which are `work`, that dividing the axis saves."""
        return part >= self.part and part * work >= self.multiplications


@dataclass(frozen=True)
class PhaseCosts:
    """Costs by which a strided transposed convolution becomes several others.

    `lanes`: outputs that take as long as one. `stored`: multiplications of a vector that take as long as storing one result.
    `added`: those that take as long as adding a term to a result under a condition.

    `zeros`: the least part of the time for which kernels get zeros; None for never. They turn an infinity or NaN of the input
    into NaN in results next to those that depend on it."""

    lanes: int
    stored: int
    added: int
    zeros: float | None


@dataclass(frozen=True)
class Sorting:
    """How kernels sort rows.

    `compared`: rows up to this length take one kernel that compares all pairs. Longer ones are sorted by digits of up to `digit`
    bits if `block`, the elements that a program ranks at once, is not 0. Digits are counted together in chunks of `chunk` blocks.
    A row of up to `whole` elements is ranked at once.

    Otherwise runs are merged. `run`, `fan`: the length of the first runs, and the number of runs that a kernel merges. For the
    same number of kernels, more of either costs more comparisons. `longest`: runs of a row of unknown length; the last kernel
    merges all that are this long. More kernels would take longer to compile than they save."""

    compared: int = 256
    block: int = 0
    whole: int = 0
    digit: int = 8
    chunk: int = 32
    run: int = 64
    fan: int = 8
    longest: int = 1 << 15


def _itself(size: Dim) -> Dim:
    return size


@dataclass(frozen=True)
class Preferences:
    """How builders describe kernels for one target.

    `keep_rows`: keep an expensive value that two stages of a row need in scratch memory instead of recomputing it.

    `strided_columns`: read a matmul's rhs through a view with strided columns; otherwise a kernel copies it first.

    `transposed_rows`: a matmul of up to this many rows reads an rhs in place that is no constant and has a contiguous depth.
    Otherwise the rhs is transposed first.

    `reduce_block`: reduce a whole tensor, or its leading axes, in parallel blocks of about this many elements. A second
    kernel combines the partial results, so the result does not depend on the number of threads. 0: one block.

    `repeat_small`: recompute a small, cheap tensor (a converted bias) in its consumers, because its own kernel would
    cost more.

    `repeat_reads`: recompute a value in a consumer from tensors already in memory if that moves fewer bytes.

    `repeat_dequantised`: the same for values that cheap functions make of 8-bit integers, so that kernels exchange bytes.

    `fuse_reductions`: fuse reductions of the same rows that read a common tensor, even if one depends on the other.

    `concat_operands`: lower a concat of up to this many tensors, with the cheap ops around it, to one elementwise kernel.

    `concat_chain`: such a kernel also computes an operand of the concat if that takes up to this many cheap ops, and only the
    concat reads it.

    `concat_loads`: the same without the ops that make its operands, for up to this many tensors, eight in a kernel. Their runs in
    the result must be multiples of 16 bytes, so that a thread loads a whole run of one tensor under one condition. 0: never.

    `concat_in_place`: the kernel of a matmul or loop whose only user is a concat writes into the concat's result.

    `concat_gradients`: the same for the kernels of an attention's backward pass, if a concat joins all that they compute.

    `fused_gradients`: one kernel computes the gradients of an attention's queries, keys and values, and forms the
    probabilities once. Otherwise there are two, for the queries and for keys and values, each with many independent
    iterations. `fused_gradient_keys`: up to this many keys, one kernel computes them if heads are in half precision and have
    up to 64 features. A program of a GPU then has the gradients of all keys in registers.

    `split_keys`: if attention has up to `split_rows` queries for each key head, split its keys into parallel parts of
    this length. A second kernel combines the parts. Not needed for `split_programs` key heads or more. 0: never.

    `small_loops`: one kernel computes independent loops of one shape with up to this many elements. 0: never.

    `row_reductions`: for up to this many rows, the kernel of a matmul with a weight of few bits also computes a norm of the rows
    before it. Two such matmuls of the same rows whose results an op combines are one kernel. 0: never.

    `foreach`: the updates of state, such as parameters and their moments, have kernels of their own, and one group updates up to
    this many tensors; likewise loops over inputs. 0: an update is computed with its gradient. A loop that reads and writes more
    than `foreach_bytes` has a kernel of its own.

    `small_dtypes`: the 8-bit float types that contractions read directly. Both operands need a contiguous depth.

    `widened_rows`: from this many rows on, a matmul's constant weight of 8-bit floats is widened while compiling. With fewer
    rows, and with a number known only at run time, kernels read its bytes. 0: they always do.

    `reduce_rows`: rows of a block, given the number of kept elements and of rows of a reduction over leading axes.
    These axes are then one axis, and a variance needs one pass over them. None: blocks consist of whole axes if those
    fit.

    `long_rows`: also reduce a few rows in blocks if a row has at least this many elements, counted once for each stage that reads
    it. 0: never.

    `column_reduction_width`: compute column reductions in the kernel that already reads the rows, for rows of up to
    this many elements. It processes up to `column_reduction_blocks` blocks of at least `column_reduction_rows` rows,
    and a second kernel combines the blocks. 0: column reductions have kernels of their own. A kernel has at most `column_sums` of
    them, because it keeps a row of partial results of each in registers. Those whose operands must be recomputed there join it
    for rows of up to `recomputed_columns` elements.

    `parallel_scatter`: scatter in parallel, without conflicts: kernels sort the updates by target. Otherwise updates are applied
    one after another, which suits one thread.

    `parallel_sort`: sort in kernels, in parallel. Otherwise the runtime's library sorts, with one thread for each row.

    `sorting`: how kernels sort, if they do.

    `separate_epilogue`: for half-precision matmuls of at least this many elements, put expensive epilogue functions into a
    kernel of their own. In the epilogue the tensor cores would wait for them. 0: never.

    `sliding_windows`: kernels of depthwise convolutions iterate along whichever axis is contiguous, so a group may read and write
    channels-first tensors without transposes, and pads the operand of a weight's gradient.

    `padded_windows`: the kernel of a weight's gradient in half precision reads zeros outside of an image, at no cost. Its image
    is not padded by a kernel of its own.

    `depthwise_bytes`: kernels of depthwise convolutions convert bytes as they load them, at no cost beside the memory that
    this saves.

    `bytes_as_floats`: True for a 3 x 3 convolution of dequantised bytes that takes less time in float32, in the Winograd domain,
    than as integers. None: for no convolution.

    `groups_in_lanes`: True for a grouped convolution of channels-last images, or the gradient of its weight, if the lanes of a
    vector hold several groups. Its kernel then has loops over output channels. Otherwise each group is a matmul. None: those of
    some channels are.

    `channels_first`: True if a region of pointwise ops and convolutions of one tap is faster with channels-first images than with
    copies to channels-last and back. None: for no region.

    `grouped_images`: True if a grouped convolution is faster as a matmul for each group of its channels-first image than after a
    copy to channels-last. It is given the image's elements. None: for no convolution.

    `merged_groups`: for half-precision convolutions with groups of few channels, matmuls over several groups of together
    this many channels, with a weight that is zero between different groups. 0: each group is a matmul.

    `split_depth`: chooses split-K: given a matmul and the possible numbers of splits of its depth, returns one of them, or 1
    for none. None: matmuls are never split. `split_parts`: the largest number of splits.

    `depth_shares`: the number of shares into which the kernel of a matmul divides its depth itself, so that every processor has
    the same work. It is 1 if the kernel needs no shares, and 0 for a matmul of another kind. None: no kernel does.

    `split_taps`: divide convolutions whose taps read padding for a part of the results, and the gradients of their weights.
    None: never.

    `interleaved_phases`: the phases of strided transposed convolutions are written into one tensor, and then interleaved.
    Otherwise their dilated results are added.

    `finite_masks`: a causal mask of numbers of -10,000 or less in place of scores is taken for one of minus infinity. Results
    differ if all other scores of a row are below -9,896.

    `likely`: the likely value of a size, from the program's size hints.
    """

    keep_rows: bool = True
    strided_columns: bool = False
    transposed_rows: int = 0
    reduce_block: int = 0
    reduce_rows: Callable[[int, Dim], int] | None = None
    long_rows: int = 0
    column_reduction_width: int = 0
    column_reduction_blocks: int = 0
    column_reduction_rows: int = 1
    column_sums: int = 0
    recomputed_columns: int = 0
    repeat_small: bool = False
    repeat_reads: bool = False
    repeat_dequantised: bool = False
    fuse_reductions: bool = False
    concat_operands: int = 0
    concat_chain: int = 4
    concat_loads: int = 0
    concat_in_place: bool = False
    concat_gradients: bool = False
    finite_masks: bool = True
    fused_gradients: bool = False
    fused_gradient_keys: int = 0
    split_keys: int = 0
    split_rows: int = 0
    split_programs: int = 0
    parallel_scatter: bool = False
    parallel_sort: bool = False
    sorting: Sorting = Sorting()
    small_loops: int = 0
    row_reductions: int = 0
    foreach: int = 0
    foreach_bytes: int = 0
    small_dtypes: tuple[str, ...] = ()
    widened_rows: int = 0
    separate_epilogue: int = 0
    sliding_windows: bool = False
    padded_windows: bool = False
    depthwise_bytes: bool = False
    bytes_as_floats: Callable[[Convolution], bool] | None = None
    groups_in_lanes: Callable[[GroupedConvolution], bool] | None = None
    channels_first: Callable[[PointwiseRegion], bool] | None = None
    grouped_images: Callable[[GroupedConvolution, Dim], bool] | None = None
    merged_groups: int = 0
    split_depth: Callable[[ContractionKernel, Sequence[int]], int] | None = None
    depth_shares: Callable[[ContractionKernel], int] | None = None
    split_taps: SplitTaps | None = None
    split_parts: int = 128
    interleaved_phases: PhaseCosts | None = None
    likely: Callable[[Dim], Dim] = _itself
