"""Constants and what passes tensors on unchanged: Constant, ConstantOfShape, EyeLike, Range, Identity."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, number
from burn.dialect.dims import dim_max
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, INTEGERS, type_of
from burn.importers.onnx.node import Node, onnx_op

# Attribute of Constant -> (its getter, the element type it makes).
_PLAIN: dict[str, tuple[str, Any]] = {
    "value_float": ("float", np.float32),
    "value_floats": ("floats", np.float32),
    "value_int": ("int", np.int64),
    "value_ints": ("ints", np.int64),
    "value_string": ("string", object),
    "value_strings": ("strings", object),
}


@onnx_op("Constant")
def constant(node: Node) -> ir.Value:
    """One of the attributes holds the value."""
    hint = node.outputs[0]
    if node.has("sparse_value"):
        return node.importer.constant_tensor(node.sparse_tensor("sparse_value"), hint)
    for name, (getter, dtype) in _PLAIN.items():
        if node.has(name):
            return node.array(np.array(getattr(node, getter)(name), dtype), hint)
    return node.importer.constant_tensor(node.tensor("value"), hint)


@onnx_op("ConstantOfShape")
def constant_of_shape(node: Node) -> ir.Value:
    shape = node.read_dims(0)
    value = node.tensor("value", None)
    if value is None:
        return ops.full(shape=shape, dtype="float32", value=0.0)
    element = value.array().reshape(-1)
    if element.size != 1:
        node.fail(f"must hold one element, not {element.size}", "value")
    return ops.broadcast_to(number(element[0], value.dtype), shape=shape)


@onnx_op("Identity")
def identity(node: Node) -> Any:
    return node.inputs[0]


@onnx_op("EyeLike")
def eye_like(node: Node) -> ir.Value:
    type_ = node.type_only(0)
    if type_.rank != 2:
        node.fail(f"takes a matrix, not {type_}")
    rows = ops.iota(shape=type_.shape, axis=0)
    columns = ops.iota(shape=type_.shape, axis=1)
    diagonal = ops.add(rows, number(node.int("k", 0), "int64"))
    return ops.cast(ops.eq(diagonal, columns), dtype=node.dtype("dtype", type_.dtype))


@onnx_op("Range")
def range_(node: Node) -> ir.Value:
    """start, start + delta, ... : max(0, ceil((limit - start) / delta)) numbers."""
    start, limit = (ops.reshape(node.required(i), shape=()) for i in range(2))
    dtype = type_of(start).dtype
    delta = ops.reshape(node.default(2, 1, dtype), shape=())
    bounds = [node.scalar(i) for i in range(3)]
    if not node.has_input(2):  # a vendor's operator may leave it out
        bounds[2] = 1
    if bounds[2] is not None and bounds[2] == 0:
        node.fail("a step of 0 never ends")
    known = all(b is not None and not isinstance(b, float) for b in bounds)
    if known and isinstance(bounds[2], int) and bounds[2] != 0:
        first, last, step = bounds
        length = (last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step
        count = dim_max(0, length)
    elif all(isinstance(b, (int, float)) for b in bounds) and bounds[2] != 0:
        count = max(0, int(np.ceil((bounds[1] - bounds[0]) / bounds[2])))
    else:
        wide = "int64" if dtype in INTEGERS else "float64"
        span = ops.sub(convert(limit, wide), convert(start, wide))
        step = convert(delta, wide)
        if wide == "float64" or not isinstance(bounds[2], int):
            sound = ops.ne(step, number(0, wide))
            if wide == "float64":  # and no NaN or infinity among the three
                sound = ops.and_(sound, ops.eq(ops.sub(span, span), ops.sub(step, step)))
            says = "a range needs a step that is not 0, and finite bounds"
            check_size(node.read_dim(ops.cast(sound, dtype="int64"), hint="sound"), "==", 1, says)
        if wide == "int64":
            length = ops.neg(ops.floordiv(ops.neg(span), step))
        else:
            length = ops.cast(ops.ceil(ops.div(span, step)), dtype="int64")
        count = node.read_dim(ops.max(length, number(0, "int64")), hint="range")
    steps = ops.iota(shape=(count,), axis=0, dtype=dtype if DTYPES[dtype].kind != "float" else "int64")
    if isinstance(bounds[2], int) and bounds[2] == 1:
        scaled = convert(steps, dtype)
    else:
        scaled = ops.mul(convert(steps, dtype), delta)
    if bounds[0] == 0:
        return scaled
    return ops.add(scaled, start)
