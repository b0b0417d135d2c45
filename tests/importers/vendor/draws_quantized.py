"""Random cases of com.microsoft's quantised operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.importers.vendor.case import Array, Case, Draw, draws
from tests.importers.vendor.draws_standard import window
from tests.importers.vendor.references import matmul_n_bits_truth, quantized_softmax

U8, S8 = np.uint8, np.int8


def parameters(d: Draw, dtype: Any, optional: bool = True) -> list[Any]:
    """A scale and a zero point."""
    zero = d.bytes(dtype)
    return [np.array(d.positive(), np.float32), d.maybe(zero) if optional else zero]


def without(operands: list[Any], positions: tuple[int, ...], dtype: Any) -> dict[int, Array]:
    """Zero points for the runtime, whose shape inference fails where they are left out."""
    return {i: np.zeros((), dtype) for i in positions if operands[i] is None}


@draws("QLinearAdd", "QLinearMul")
def qlinear_add(d: Draw) -> Case:
    dtype, n = d.pick(U8, S8), d.size()
    shapes = d.pick(((3, n), (3, n)), ((2, 3, n), (n,)), ((3, 1), (1, n)), ((n,), ()))
    operands: list[Any] = []
    for shape in shapes:
        operands += [d.bytes(dtype, *shape), *parameters(d, dtype)]
    operands += [np.array(d.pick(0.05, 0.2), np.float32), d.maybe(d.bytes(dtype))]
    zeros = without(operands, (2, 5, 7), dtype)
    return Case("QLinearAdd", operands, constant=d.pick((), (1, 2, 4, 5, 6, 7)), steps=1, share=0.2, instead=zeros)


@draws("QLinearLeakyRelu")
def qlinear_leaky_relu(d: Draw) -> Case:
    return replace(qlinear_sigmoid(d), attributes={"alpha": d.pick(None, 0.3)})


@draws("QLinearSigmoid")
def qlinear_sigmoid(d: Draw) -> Case:
    dtype = d.pick(U8, S8)
    x = d.bytes(dtype, d.size(), d.size())
    operands = [x, *parameters(d, dtype), np.array(0.01, np.float32), d.maybe(d.bytes(dtype))]
    return Case("QLinearSigmoid", operands, constant=d.pick((), (1, 2, 3, 4)), steps=1, share=0.2, open={0: (0, 1)})


@draws("QLinearGlobalAveragePool")
def qlinear_global_average_pool(d: Draw) -> Case:
    dtype, spatial, last = d.pick(U8, S8), d.size(1, 2), d.pick(None, 0, 1)
    sizes = [d.size(1, 3, 4) for _ in range(spatial)]
    x = d.bytes(dtype, 2, *sizes, 3) if last else d.bytes(dtype, 2, 3, *sizes)
    operands = [x, *parameters(d, dtype, False), *parameters(d, dtype, False)]
    return Case("QLinearGlobalAveragePool", operands, {"channels_last": last}, steps=1, share=0.2, open={0: (0,)})


@draws("QLinearAveragePool")
def qlinear_average_pool(d: Draw) -> Case:
    dtype, spatial, last = d.pick(U8, S8), d.size(1, 2), d.pick(None, 0, 1)
    sizes = [d.size(5, 6) for _ in range(spatial)]
    x = d.bytes(dtype, 2, *sizes, 3) if last else d.bytes(dtype, 2, 3, *sizes)
    attributes = {**window(d, spatial, ceil=True, dilated=False), "channels_last": last}
    attributes["count_include_pad"] = d.pick(None, 0, 1)
    attributes.pop("dilations", None)
    operands = [x, *parameters(d, dtype), *parameters(d, dtype)]
    zeros = without(operands, (2, 4), dtype)
    return Case(
        "QLinearAveragePool",
        operands,
        attributes,
        constant=(1, 2, 3, 4),
        steps=1,
        share=0.3,
        open={0: (0,)},
        instead=zeros,
    )


@draws("QLinearSoftmax")
def qlinear_softmax(d: Draw) -> Case:
    dtype = d.pick(U8, S8)
    x = d.bytes(dtype, d.size(1, 2), d.size(1, 3), d.size(2, 5))
    zero = np.array(0 if dtype is U8 else -128, dtype)
    operands = [x, np.array(0.03, np.float32), d.maybe(d.bytes(dtype)), np.array(1 / 256, np.float32), zero]
    attributes = {"axis": d.pick(None, -1, 0, 1, 2), "opset": d.pick(11, 12, 13, 20)}
    return Case(
        "QLinearSoftmax", operands, attributes, constant=(1, 2, 3, 4), steps=1, open={0: (0,)}, truth=quantized_softmax
    )


@draws("QLinearWhere")
def qlinear_where(d: Draw) -> Case:
    dtype, n = d.pick(U8, S8), d.size()
    condition = d.ints(0, 2, *d.pick((3, n), (n,), (3, 1))).astype(bool)
    operands = [condition, d.bytes(dtype, 3, n), *parameters(d, dtype, False), d.bytes(dtype, *d.pick((3, n), (1, n)))]
    operands += [*parameters(d, dtype, False), *parameters(d, dtype, False)]
    return Case("QLinearWhere", operands, constant=d.pick((), (2, 3, 5, 6, 7, 8)), steps=1, share=0.2)


@draws("QLinearConcat")
def qlinear_concat(d: Draw) -> Case:
    dtype, axis = d.pick(U8, S8), d.pick(-1, 0, 1)
    operands = parameters(d, dtype, False)
    for _ in range(d.size(1, 2, 3)):
        operands += [d.bytes(dtype, *((d.size(), 3) if axis == 0 else (3, d.size()))), *parameters(d, dtype, False)]
    fixed = [i for i in range(len(operands)) if i < 2 or i % 3 != 2]
    return Case("QLinearConcat", operands, {"axis": axis}, constant=d.pick((), fixed), steps=1, share=0.2)


@draws("QGemm")
def qgemm(d: Draw) -> Case:
    a, b = d.pick((U8, U8), (U8, S8), (S8, S8))
    m, k, n = d.size(), d.size(), d.size()
    flips = {name: d.pick(None, 0, 1) for name in ("transA", "transB")}
    per_column = d.flag()
    x, w = d.bytes(a, m, k), (d.bytes(b, k, n) // (2 if b is S8 else 1)).astype(b)
    c = d.pick(None, d.ints(-99, 99, n), d.ints(-99, 99, 1, n), d.ints(-99, 99, m, n), d.ints(-99, 99, m, 1))
    float_result = d.flag()
    operands = [
        x.T.copy() if flips["transA"] else x,
        *parameters(d, a, False),
        w.T.copy() if flips["transB"] else w,
        d.positive(n) if per_column else np.array(d.positive(), np.float32),
        d.bytes(b, n) if per_column else d.bytes(b),
        c,
        *([] if float_result else [np.array(0.2, np.float32), d.bytes(a)]),
    ]
    attributes = {**flips, "alpha": d.pick(None, 0.5)}
    return Case("QGemm", operands, attributes, constant=d.pick((), (3, 4, 5)), steps=1, share=0.2, open={})


@draws("MatMulIntegerToFloat")
def matmul_integer_to_float(d: Draw) -> Case:
    a, b = d.pick((U8, U8), (U8, S8), (S8, S8))
    lead, m, k, n = d.pick((), (2,)), d.size(), d.size(), d.size()
    per_column = d.flag()
    weight = (d.bytes(b, *(() if per_column else d.pick((), lead)), k, n) // (2 if b is S8 else 1)).astype(b)
    operands = [
        d.bytes(a, *lead, m, k),
        weight,
        np.array(d.positive(), np.float32),
        d.positive(n) if per_column else np.array(d.positive(), np.float32),
        d.maybe(d.bytes(a)),
        d.maybe(d.bytes(b, n) if per_column else d.bytes(b)),
        d.maybe(d.f(n)),
    ]
    return Case(
        "MatMulIntegerToFloat", operands, constant=d.pick((), (1, 2, 3, 4, 5, 6)), open={0: range(operands[0].ndim - 1)}
    )


@draws("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(d: Draw) -> Case:
    b, per_column = d.pick(U8, S8), d.flag()
    lead, m, k, n = d.pick((), (2,)), d.size(), d.size(), d.size()
    weight = (d.bytes(b, k, n) // (2 if b is S8 else 1)).astype(b)
    operands = [
        d.f(*lead, m, k),
        weight,
        d.positive(n) if per_column else np.array(d.positive(), np.float32),
        d.maybe(d.bytes(b, n) if per_column else d.bytes(b)),
        d.maybe(d.f(n)),
    ]
    return Case(
        "DynamicQuantizeMatMul",
        operands,
        constant=d.pick((), (1, 2, 3, 4)),
        tolerance=1e-5,
        open={0: range(operands[0].ndim - 1)},
    )


def _packed(d: Draw, bits: int, rows: int, blocks: int, block: int) -> Array:
    return d.bytes(U8, rows, blocks, block * bits // 8)


@draws("MatMulNBits")
def matmul_n_bits(d: Draw) -> Case:
    bits, block = d.pick(2, 4, 4, 8), d.pick(16, 32, 64)
    k, n = d.pick(16, 40, 64, 96), d.size(1, 5, 8)
    blocks = -(-k // block)
    zero = d.pick(None, d.bytes(U8, n * -(-blocks * bits // 8)), d.f(n * blocks) + 2 ** (bits - 1))
    operands: list[Any] = [
        d.f(*d.pick((), (1,), (3,), (2, 3)), k),
        _packed(d, bits, n, blocks, block),
        d.positive(n * blocks),
        zero,
        None,
        d.maybe(d.f(n)),
    ]
    attributes = {
        "K": k, "N": n, "bits": None if bits == 4 and d.flag() else bits, "block_size": block,
        "accuracy_level": d.pick(None, 0, 1), "weight_prepacked": d.pick(None, 0),
    }  # fmt: skip
    return Case(
        "MatMulNBits",
        operands,
        attributes,
        constant=(1, 2, 3, 5),
        tolerance=1e-4,
        open={0: range(operands[0].ndim - 1)},
        truth=matmul_n_bits_truth,
    )


TYPES: dict[str, tuple[int, int, int]] = {
    "uint8": (TensorProto.UINT8, 0, 255),
    "int8": (TensorProto.INT8, -128, 127),
    "uint16": (TensorProto.UINT16, 0, 65535),
    "int16": (TensorProto.INT16, -32768, 32767),
    "uint4": (TensorProto.UINT4, 0, 15),
    "int4": (TensorProto.INT4, -8, 7),
    "int32": (TensorProto.INT32, -1000, 1000),
}


def _elements(d: Draw, low: int, high: int, shape: tuple[int, ...], name: str) -> Array:
    dtype = {"uint4": U8, "int4": S8}.get(name, name)
    return d.rng.integers(low, high + 1, shape).astype(dtype)


@draws("QuantizeLinear")
def quantize_linear(d: Draw) -> Case:
    name = d.pick("uint8", "int8", "uint16", "int16")
    type_, low, high = TYPES[name]
    x, per_axis = d.f(3, d.size(), 5, scale=20), d.flag()
    axis = d.pick(0, 1, 2, -1) if per_axis else d.pick(None, 1)
    shape = (x.shape[axis],) if per_axis else ()
    zero = _elements(d, low, high, shape, name)
    operands = [x, d.positive(*shape) if per_axis else np.array(d.positive(), np.float32), zero]
    if name == "uint8":
        operands[2] = d.maybe(operands[2])
    return Case(
        "QuantizeLinear",
        operands,
        {"axis": axis},
        constant=d.pick((), (1, 2)),
        steps=1,
        share=0.1,
        types={2: type_},
        open={},
    )


@draws("DequantizeLinear")
def dequantize_linear(d: Draw) -> Case:
    name = d.pick(*TYPES)
    type_, low, high = TYPES[name]
    x, per_axis = _elements(d, low, high, (3, d.size(), 5), name), d.flag()
    axis = d.pick(0, 1, 2, -1) if per_axis else d.pick(None, 1)
    shape = (x.shape[axis],) if per_axis else ()
    zero = None if name == "int32" else d.maybe(_elements(d, low, high, shape, name))
    operands = [x, d.positive(*shape) if per_axis else np.array(d.positive(), np.float32), zero]
    fixed = (0, 1, 2) if name in ("uint4", "int4") else d.pick((), (1, 2))
    return Case("DequantizeLinear", operands, {"axis": axis}, constant=fixed, types={0: type_, 2: type_}, open={})


@draws("GatherBlockQuantized")
def gather_block_quantized(d: Draw) -> Case:
    name, bits = d.pick(("uint8", 4), ("uint8", 8), ("uint8", 2), ("uint4", 4), ("int4", 4))
    block, rows, width = d.pick(16, 32), d.size(1, 3, 8), d.pick(16, 32, 64)
    block = min(block, width)
    type_, low, high = TYPES[name]
    packed = name == "uint8"
    along = 0 if packed else d.pick(0, 0, -2, 1)
    shape, at = ((rows, width), -1) if along in (0, -2) else ((width, rows), 0)
    data = _elements(d, low, high, (rows, width * bits // 8) if packed else shape, name)
    blocks = -(-width // block)
    scales = d.positive(*((rows, blocks) if at == -1 else (blocks, rows)))
    zeros = _elements(d, low, high, (rows, -(-blocks * bits // 8)) if packed else scales.shape, name)
    index = d.ints(-rows, rows, *d.pick((), (3,), (2, 2)), dtype=d.pick(np.int32, np.int64))
    attributes = {
        "bits": bits if bits != 4 else d.pick(None, 4),
        "block_size": block,
        "gather_axis": along if along else d.pick(None, 0),
        "quantize_axis": (d.pick(None, 1, -1) if at == -1 else 0),
    }
    scales = scales.astype(d.pick(np.float32, np.float32, np.float16))
    operands = [data, index, scales, d.maybe(zeros)]
    tolerance = 1e-3 if scales.dtype == np.float16 else 1e-6
    types = {0: type_, 3: type_}
    return Case(
        "GatherBlockQuantized", operands, attributes, 1, (0, 2, 3), tolerance, types=types, open={1: range(index.ndim)}
    )


@draws("MatMulBnb4")
def matmul_bnb4(d: Draw) -> Case:
    n, k, block = d.size(1, 3, 8), d.size(2, 16, 33), d.pick(16, 32)
    count = n * k
    x = d.f(*d.pick((2,), (1,), (2, 3)), k)
    operands = [x, d.bytes(U8, -(-count // 2)), d.positive(-(-count // block))]
    attributes = {
        "N": n, "K": k, "block_size": block, "quant_type": d.pick(0, 1), "transB": d.pick(None, 1),
        "training_mode": d.pick(None, 0, 1),
    }  # fmt: skip
    return Case("MatMulBnb4", operands, attributes, constant=(1, 2), open={0: range(x.ndim - 1)})


@draws("QEmbedLayerNormalization")
def q_embed_layer_normalization(d: Draw) -> Case:
    batch, length, width, dtype = d.size(1, 2), d.size(1, 3, 5), d.size(1, 8), d.pick(U8, S8)
    segments = d.flag()
    flags = (np.arange(length) < d.ints(1, length + 1, batch, 1)).astype(np.int32)

    def scale() -> Array:
        return np.array(d.positive(), np.float32)

    operands = [
        d.ints(0, 10, batch, length),
        d.ints(0, 2, batch, length) if segments else None,
        d.bytes(dtype, 10, width),
        d.bytes(dtype, 6, width),
        d.bytes(dtype, 2, width) if segments else None,
        d.bytes(dtype, width),
        d.bytes(dtype, width),
        d.maybe(flags),
        *(scale(), scale(), scale() if segments else None, scale(), scale()),
        *(d.bytes(dtype), d.bytes(dtype), d.bytes(dtype) if segments else None, d.bytes(dtype), d.bytes(dtype)),
    ]
    free: Any = dict.fromkeys((0, 1, 7), (0, 1))
    return Case("QEmbedLayerNormalization", operands, {"epsilon": d.pick(None, 1e-5)}, 2, open=free, tolerance=1e-4)
