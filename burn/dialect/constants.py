"""The bytes of a program's constants, as the artefact stores them."""

from __future__ import annotations

import numpy as np

from burn.dialect.deferred import Deferred, Value
from burn.dialect.mlir import ir
from burn.dialect.query import op_of, splat
from burn.dialect.types import DTYPES, numpy_dtype, type_of
from burn.dialect.weights import WeightStore


def known_array(value: ir.Value, weights: WeightStore) -> np.ndarray | None:
    """The elements of a `burn.weight` or `burn.constant`; None for other values, and for a weight that is not in the
    store, because passes may run without the bytes of weights."""
    op = op_of(value)
    if op is None or op.OP_NAME not in ("weight", "constant") or (op.OP_NAME == "weight" and op.key not in weights):
        return None
    return constant_array(value, weights)


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


def written(x: Value) -> float | None:
    """The number that all elements of x equal, if the program says so."""
    if isinstance(x, Deferred):
        application = x.application
        return application.attrs["value"] if application is not None and application.op.OP_NAME == "full" else None
    number = splat(x)
    return None if number is None else float(number)
