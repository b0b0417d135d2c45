"""How far a correct program may be from ONNX Runtime.

Every value has a twin: the same graph where each op that rounds gets a small error of random sign. Where a value and its
twin are far apart the graph itself is ill-conditioned there and a difference says nothing. An op that jumps (Round, a
comparison) is also run on a much larger error in both directions. An element that may fall on either side of the jump then has
a twin on the other side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import numpy_helper

from .values import FLOATS, Array, Value, words

EPSILON = {"float32": 3e-6, "float64": 1e-12, "float16": 2e-3}
FLOOR = {"float32": 1e-7, "float64": 1e-15, "float16": 1e-6}
ALLOWED = 60  # twins' distances; and so much noise an op that jumps is shown

HALF = {"bf16": 2.0**-8, "fp16": 2.0**-11}
"""The rounding of float32 in programs of these precisions."""
HALF_ALLOWED = 8
"""ALLOWED of these programs: their noise is the rounding itself."""

# Ops that only move, choose or negate numbers: no rounding of their own.
MOVES = frozenset(
    words(
        "Transpose Reshape Slice Concat Gather GatherND GatherElements Expand Tile Squeeze Unsqueeze Flatten Pad"
        " Split Identity Where Max Min Relu Abs Neg MaxPool Clip Floor Ceil Round Sign ReduceMax ReduceMin TopK"
        " Compress DepthToSpace SpaceToDepth Trilu ReverseSequence Unique GlobalMaxPool ArgMax ArgMin Shape Size"
        " ConstantOfShape Hardmax Range OneHot EyeLike Constant NonZero Not And Or Xor Equal Less Greater"
        " LessOrEqual GreaterOrEqual IsNaN IsInf CenterCropPad"
    )
)
# Sums and multiplications of numbers with few bits are exact in any order.
EXACT = MOVES | frozenset(words("Add Sub Mul MatMul Gemm ReduceSum Conv CumSum Sum ReduceSumSquare ReduceL1 Cast"))
MATMULS = frozenset(words("MatMul Gemm Conv ConvTranspose Einsum LSTM GRU RNN Attention"))
# The error of a sum is one of its terms' size, not of its own.
SUMS = MATMULS | frozenset(
    words(
        "ReduceSum ReduceMean ReduceLogSum ReduceLogSumExp CumSum Softmax LogSoftmax AveragePool GlobalAveragePool"
        " LRN Sum Mean LayerNormalization BatchNormalization InstanceNormalization GroupNormalization"
        " MeanVarianceNormalization Add Sub LpNormalization Resize RMSNormalization ScatterND ScatterElements"
        " GridSample Upsample"
    )
)
JUMPS = frozenset(
    words(
        "Floor Ceil Round Sign Cast QuantizeLinear DynamicQuantizeLinear Equal Less Greater LessOrEqual"
        " GreaterOrEqual ArgMax ArgMin TopK Hardmax NonZero Mod Not ThresholdedRelu Shrink HardSigmoid IsNaN IsInf"
        " Unique MaxPool"
    )
)
COUNTS = frozenset(words("NonZero Unique"))
"""Ops whose results have sizes that equal elements decide. In half precision different numbers may round to equal ones."""

_rounding = 0.0


@contextmanager
def of_precision(precision: str | None) -> Iterator[None]:
    """Inside, twins have the noise of a program that `burn.load` compiles with this precision."""
    global _rounding
    before, _rounding = _rounding, HALF[precision] if precision else 0.0
    try:
        yield
    finally:
        _rounding = before


def rounding() -> float:
    """The rounding of float32 in half precision; 0 in full precision."""
    return _rounding


def allowed() -> int:
    return HALF_ALLOWED if _rounding else ALLOWED


def epsilon(dtype: str) -> float:
    return max(EPSILON[dtype], 2 * _rounding if dtype == "float32" else 0.0)


def is_exact(ops: set[str]) -> bool:
    """True if these ops have no error on numbers of few bits. Half precision rounds their sums."""
    return ops <= (MOVES if _rounding else EXACT)


def disturb(
    rng: np.random.Generator,
    array: Array,
    twin: Array,
    used: list[Value],
    at: int,
    ops: set[str],
    constants: list[onnx.TensorProto],
) -> Array:
    """The twin of a float result, with this piece's own rounding added."""
    if array.dtype not in FLOATS or ops <= MOVES:
        return twin
    floats = [value for value in used if value.dtype in FLOATS]
    numbers = [numpy_helper.to_array(c) for c in constants if c.data_type in (1, 10, 11)]
    exact = all(few_bits(v.arrays[at]) and np.array_equal(v.arrays[at], v.twins[at]) for v in floats)
    if is_exact(ops) and exact and all(map(few_bits, numbers)) and few_bits(array):
        return twin
    scale = largest(array)
    if ops & SUMS:
        sizes = [largest(value.arrays[at]) for value in floats]
        sizes += map(largest, numbers)
        scale = max([scale, *sizes, float(np.prod(sizes)) if ops & MATMULS else 0.0])
    with np.errstate(all="ignore"):
        error = epsilon(array.dtype.name) * (np.abs(twin.astype(np.float64)) + scale) / 2
        return np.asarray(twin + error * rng.choice([-1, 1], array.shape), array.dtype)


def magnified(array: Array, twin: Array, factor: float) -> Array:
    """The value moved by `factor` times its noise."""
    if array.dtype not in FLOATS:
        return array
    with np.errstate(all="ignore"):
        moved = array.astype(np.float64) + factor * (twin.astype(np.float64) - array)
        return np.asarray(np.where(np.isfinite(moved), moved, array), array.dtype)


def largest(array: Array) -> float:
    finite = array[np.isfinite(array)]
    return float(np.abs(finite.astype(np.float64)).max(initial=0.0))


def few_bits(array: Array) -> bool:
    if not array.size:
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array).all() and (array * 256 == np.floor(array * 256)).all() and largest(array) < 4096)
