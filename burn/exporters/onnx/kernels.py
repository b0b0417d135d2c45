"""The element types that an operator is computed in, if runtimes support fewer than the ONNX standard.

The table follows ONNX Runtime's CPU kernels, the widest in use. An operator of another type is written between
casts to a type that holds every value exactly (`carrier`). Without such a type it is written as in the standard.
Integers that wrap around do so in a wider type: the cast back drops the same bits.
"""

from __future__ import annotations

from collections.abc import Container

_FLOATS = frozenset({"float16", "float32", "float64"})
_SINGLE = frozenset({"float16", "float32"})
_INTS = frozenset({"int8", "int16", "int32", "int64"})
_UINTS = frozenset({"uint8", "uint16", "uint32", "uint64"})
_NUMBERS = _FLOATS | _INTS | _UINTS
_SUMS = _FLOATS | {"int32", "int64"}
_EXTREMES = _FLOATS | {"int8", "int32", "int64", "uint8"}
_ORDERED = _EXTREMES | {"uint32", "uint64"}
_MOVED = _NUMBERS | {"bool", "string"}

KERNELS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Abs"), _NUMBERS),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _NUMBERS),
    "Sign": _NUMBERS - {"float16"},  # whose NaN would become 0
    "Equal": _MOVED,
    "Pow": _SUMS,
    **dict.fromkeys(("Min", "Max", "Clip"), _ORDERED),
    "BitShift": frozenset({"uint8", "uint32", "uint64"}),
    "Neg": _FLOATS | _INTS,
    **dict.fromkeys(("Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos"), _FLOATS),
    **dict.fromkeys(("Tanh", "Sigmoid", "Softmax", "LogSoftmax", "LpNormalization"), _FLOATS),
    **dict.fromkeys(("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf"), _SINGLE),
    **dict.fromkeys(("Elu", "LeakyRelu", "Selu", "HardSigmoid", "HardSwish", "Softplus", "Mish"), _SINGLE),
    **dict.fromkeys(("Softsign", "Gelu", "ThresholdedRelu", "PRelu", "InstanceNormalization", "LRN"), _SINGLE),
    **dict.fromkeys(("RMSNormalization", "Attention", "RotaryEmbedding"), _SINGLE),
    **dict.fromkeys(("Conv", "ConvTranspose", "AveragePool"), _SINGLE),
    "Celu": frozenset({"float32"}),
    "Relu": _FLOATS | {"int8", "int32"},
    # the standard takes the statistics of float64 in float32
    **dict.fromkeys(("LayerNormalization", "GroupNormalization"), _SINGLE),
    "BatchNormalization": _FLOATS,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), frozenset({"float32"})),
    "IsNaN": _FLOATS | {"bfloat16"},
    "IsInf": _FLOATS | {"bfloat16"},
    "Where": _FLOATS | {"int32", "int64", "uint8", "string"},  # int8 and uint32 from release 1.31 on
    **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum"), _SUMS),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), _EXTREMES),
    "TopK": _FLOATS | {"int8", "int16", "int32", "int64", "uint8"},
    "NonZero": frozenset({"float32", "int32", "int64", "uint8", "bool"}),
    "Unique": frozenset({"float32", "float64", "int8", "int64", "string"}),
    **dict.fromkeys(("Expand", "Tile"), _MOVED),
    "Pad": _ORDERED | {"bool"},
    **dict.fromkeys(("MatMul",), _SUMS | {"uint32", "uint64"}),
    "Einsum": _SUMS,
    "Gemm": _FLOATS,
    "MaxPool": _FLOATS | {"int8", "uint8"},
    "Range": frozenset({"float32", "float64", "int16", "int32", "int64"}),
    "Resize": _SINGLE | {"int8", "int32", "uint8"},
    "DFT": _FLOATS,
}
"""Operator -> element types; an operator that is not here takes whatever the standard says."""

_CARRIERS: dict[str, tuple[str, ...]] = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), ("float32",)),
    **dict.fromkeys(("float8_e8m0fnu", "float4_e2m1fn"), ("float32",)),
    **dict.fromkeys(("int2", "int4"), ("int8", "int32", "int64")),
    **dict.fromkeys(("uint2", "uint4"), ("uint8", "int32", "int64")),
    "int8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint8": ("int32", "int64", "uint32"),
    "uint16": ("int32", "int64", "uint32"),
    "uint32": ("int64", "uint64"),
    "bool": ("uint8", "int32"),
}
"""Types that hold every value of a type, the narrowest first."""

_SAME_BITS = {"uint64": ("int64",)}
"""Types that carry a type's bits through operators that only move elements."""

MOVES = frozenset({"Where", "Expand", "Tile", "Pad"})


def computed_in(operator: str, dtype: str) -> bool:
    """True if an operator takes a type as it is."""
    return operator not in KERNELS or dtype in KERNELS[operator]


def carrier(operator: str, dtype: str, allowed: Container[str] | None = None) -> str | None:
    """The type to compute an operator in that does not take `dtype`; None where no other does it exactly. allowed: what
    the standard lets the operator take."""
    candidates = _CARRIERS.get(dtype, ()) + (_SAME_BITS.get(dtype, ()) if operator in MOVES else ())
    return next((c for c in candidates if computed_in(operator, c) and (allowed is None or c in allowed)), None)
