"""The bytes of a program's constants, as the artefact stores them."""

from __future__ import annotations

import numpy as np

from burn.dialect.mlir import ir
from burn.dialect.query import op_of
from burn.dialect.types import DTYPES, numpy_dtype, type_of
from burn.dialect.weights import WeightStore


def constant_array(value: ir.Value, weights: WeightStore) -> np.ndarray:
    """The elements of a `burn.weight` (a view of the store's memory) or `burn.constant`."""
    op = op_of(value)
    assert op is not None
    if op.OP_NAME == "weight":
        return weights.get(op.key)
    type_ = type_of(value)
    numbers = op.bits if op.bits is not None else op.values
    kind = DTYPES[type_.dtype].kind
    dtype = numpy_dtype(type_.dtype)
    if kind == "uint":
        return np.array(numbers, np.int64).view(np.uint64).astype(dtype).reshape(type_.shape)
    return np.array(numbers, np.int64 if kind in ("int", "bool") else np.float64).astype(dtype).reshape(type_.shape)
