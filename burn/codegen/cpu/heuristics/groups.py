"""Heuristics for grouped convolutions: several groups in the lanes of a vector, or a matmul for each group."""

from __future__ import annotations

from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, estimate, product
from burn.dialect.types import DTYPES
from burn.kernels.builders.matrix import MIN_GROUP_CHANNELS
from burn.kernels.preferences import GroupedConvolution

MOST_CHANNELS = 16
"""The most input channels of a group whose loop is unrolled."""

MOST_GRADIENT_CHANNELS = 4
"""The most input channels of a group whose weight gradient is computed so: each of them reads the outputs' gradient again."""


def groups_in_lanes(convolution: GroupedConvolution, target: Target) -> bool:
    """True if vectors hold the outputs of several groups, or of one group of little depth. Then a matmul takes longer than
    windows that share loads of their elements: its tiles have few steps between address computation and epilogue. Several
    whole vectors of columns share the loads of rows in a matmul."""
    inputs, outputs = convolution.inputs, convolution.outputs
    if inputs == 1 and outputs == 1 and not convolution.gradient:
        return True
    lanes, depth = target.lanes(DTYPES[convolution.sums].size), product([*convolution.window, inputs])
    if lanes == 1 or target.compact:
        return inputs < MIN_GROUP_CHANNELS and not convolution.gradient
    if inputs > MOST_CHANNELS or not isinstance(depth, int):
        return False
    if convolution.gradient:
        return inputs <= MOST_GRADIENT_CHANNELS and 2 * outputs <= lanes
    if 2 * outputs <= lanes:
        return True
    costs = target.costs
    return depth <= costs.group_depth if outputs <= lanes else outputs % lanes == 0 and depth <= costs.group_wide_depth


MOST_PLANES = 128
"""The most input channels of a group of a channels-first image. Each is in another page, and each tap reads all of them: many
are more pages than a first-level TLB holds. With 128 the two layouts take the same time."""


def is_read_channels_first(convolution: GroupedConvolution, elements: Dim, target: Target) -> bool:
    """True if a grouped convolution reads a channels-first image of so many elements in place. Copies to channels-last take as
    long as a part of the convolution if the image is not in the second-level cache. A group with fewer outputs than lanes leaves
    lanes empty."""
    if target.small:
        return False
    size = DTYPES[convolution.dtype].size
    fills = convolution.outputs >= target.lanes(size) > 1
    return fills and convolution.inputs <= MOST_PLANES and estimate(elements) * size > target.costs.l2_block
