"""Kernels of sliding windows: depthwise convolutions, and the gradients of convolutions' weights."""

from __future__ import annotations

from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.convolution import Windows
from burn.dialect.dims import exact_div, product
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.builders.matrix import is_matmul
from burn.kernels.preferences import Preferences
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster
from burn.passes.fusion.reads import crosses

FEW_TAPS = 128
"""The most results of a channel in the gradient of a depthwise convolution's weight."""


def slides(op: Op, preferences: Preferences) -> bool:
    """True for a depthwise convolution, and for its weight's gradient: a matmul with a few results for each channel."""
    if isinstance(op, DotGeneral):
        results = product(type_of(op.operation.results[0]).shape[len(op.lhs_batch) :])
        return bool(op.lhs_batch) and isinstance(results, int) and 1 < results <= FEW_TAPS
    return isinstance(op, Conv) and op.groups > 1 and not is_matmul(op, preferences)


def has_sliding_windows(choice: Choice, cluster: Cluster) -> bool:
    """True if the target's kernel of a group can iterate in any order: that of a depthwise convolution."""
    return choice.preferences.sliding_windows and any(
        isinstance(m, Conv) and slides(m, choice.preferences) for m in cluster.members
    )


def is_crossed(choice: Choice, op: Op) -> bool:
    """True if channels are contiguous in one operand of a weight's gradient alone. Its kernel would load an element of each
    line of the other one at a time."""
    return isinstance(op, DotGeneral) and slides(op, choice.preferences) and crosses(op, choice.is_materialised)


def multiplies_windows(op: Op) -> bool:
    """True for the gradient of a convolution's weight in half precision. Windows are neighbours along the last axis, and channels
    are whole words of 16 bytes."""
    windows = op_of(op.lhs) if isinstance(op, DotGeneral) and not op.lhs_batch else None
    if not isinstance(windows, Windows) or type_of(op.lhs).dtype not in HALF_DTYPES:
        return False
    channels = type_of(op.lhs).shape[-1]
    return windows.strides[-1] == 1 and len(windows.strides) == 2 and exact_div(channels, 8) is not None
