"""Contractions: matmuls and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import along, broadcast_to, number, reshape
from burn.dialect.dims import Dim, dim_max
from burn.dialect.mlir import ir
from burn.dialect.types import INTEGERS, broadcast_shapes, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.windows import padding


def matmul(node: Node, left: ir.Value, right: ir.Value, dtype: str | None = None) -> ir.Value:
    """numpy's matmul: the last two axes are matrices, vectors get an axis of their own, the others broadcast."""
    a, b = type_of(left), type_of(right)
    if not a.rank or not b.rank:
        node.fail(f"takes vectors and matrices, not {a} and {b}")
    if b.rank <= 2:
        return ops.dot_general(left, right, lhs_contract=(a.rank - 1,), rhs_contract=(max(b.rank - 2, 0),), dtype=dtype)
    if a.rank == 1:
        result = matmul(node, reshape(left, (1, *a.shape)), right, dtype)
        shape = type_of(result).shape
        return reshape(result, (*shape[:-2], shape[-1]))
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        node.fail(str(error))
    left = broadcast_to(left, (*batch, *a.shape[-2:]))
    right = broadcast_to(right, (*batch, *b.shape[-2:]))
    n = len(batch)
    return ops.dot_general(
        left,
        right,
        lhs_batch=tuple(range(n)),
        rhs_batch=tuple(range(n)),
        lhs_contract=(n + 1,),
        rhs_contract=(n,),
        dtype=dtype,
    )


@onnx_op("MatMul")
def matmul_(node: Node) -> ir.Value:
    return matmul(node, node.required(0), node.required(1))


@onnx_op("Gemm")
def gemm(node: Node) -> ir.Value:
    """alpha * A' B' + beta * C, each matrix transposed or not."""
    a, b = node.required(0), node.required(1)
    if node.type(0).rank != 2 or node.type(1).rank != 2:
        node.fail(f"takes matrices, not {node.type(0)} and {node.type(1)}")
    left, right = (0 if node.int("transA", 0) else 1), (1 if node.int("transB", 0) else 0)
    result = ops.dot_general(a, b, lhs_contract=(left,), rhs_contract=(right,))
    result = _scaled(node, result, "alpha")
    if node.opset < 7:
        node.no_effect("broadcast", because="C broadcasts to the result where its shape differs")
    if not node.has_input(2):
        node.no_effect("beta", because="it scales C")
        return result
    return ops.add(result, _scaled(node, node.required(2), "beta"))


def _scaled(node: Node, x: ir.Value, attribute: str) -> ir.Value:
    factor, dtype = node.float(attribute, 1.0), type_of(x).dtype
    if factor == 1.0:
        return x
    if dtype in INTEGERS:
        if not factor.is_integer():
            node.fail(f"{factor} does not fit matrices of {dtype}", attribute)
        return ops.mul(x, number(int(factor), dtype))
    return ops.mul(x, number(factor, dtype))


def centred(node: Node, index: int, zero: int, axis: int | None) -> ir.Value:
    """A quantised operand less its zero point (a scalar, or a vector along `axis`), in int32; itself where that is
    0."""
    x, rank = node.required(index), node.type(index).rank
    if not node.has_input(zero):
        return x
    known = node.constant(zero)
    if known is not None and not known.astype(int).any():
        return x
    point = ops.cast(node.required(zero), dtype="int32")
    type_ = type_of(point)
    if type_.elements == 1:
        point = reshape(point, ())
    elif type_.rank == 1 and axis is not None:
        point = along(point, axis, rank)
    return ops.sub(ops.cast(x, dtype="int32"), point)


@onnx_op("MatMulInteger")
def matmul_integer(node: Node) -> ir.Value:
    left = centred(node, 0, 2, node.type(0).rank - 2 if node.type(0).rank > 1 else None)
    right = centred(node, 1, 3, node.type(1).rank - 1)
    return matmul(node, *_alike(left, right), dtype="int32")


def _alike(left: ir.Value, right: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Both of the 8-bit types, or both of int32."""
    if type_of(left).dtype == "int32" or type_of(right).dtype == "int32":
        left, right = (v if type_of(v).dtype == "int32" else ops.cast(v, dtype="int32") for v in (left, right))
    return left, right


@onnx_op("Conv")
def conv(node: Node) -> ir.Value:
    result = convolve(node, node.required(0), node.required(1))
    if not node.has_input(2):
        return result
    return ops.add(result, along(node.required(2), 1, type_of(result).rank))


@onnx_op("ConvInteger")
def conv_integer(node: Node) -> ir.Value:
    left, right = _alike(centred(node, 0, 2, None), centred(node, 1, 3, 0))
    return convolve(node, left, right, dtype="int32")


def convolve(node: Node, x: ir.Value, weight: ir.Value, dtype: str | None = None) -> ir.Value:
    """A convolution with the node's strides, dilations, groups and padding."""
    n = _spatial_axes(node, x, weight)
    strides, dilations = _per_axis(node, "strides", n), _per_axis(node, "dilations", n)
    kernel = type_of(weight).shape[2:]
    low, high = padding(node, type_of(x).shape[2:], kernel, strides, dilations)
    return ops.conv(
        x,
        weight,
        strides=strides,
        dilations=dilations,
        low=tuple(low),
        high=tuple(high),
        groups=node.int("group", 1),
        dtype=dtype,
    )


def _spatial_axes(node: Node, x: ir.Value, weight: ir.Value) -> int:
    n = type_of(x).rank - 2
    if not 1 <= n <= 3 or type_of(weight).rank != n + 2:
        node.fail(f"input {type_of(x)} and weight {type_of(weight)} are not of 1 to 3 spatial axes")
    kernel, given = type_of(weight).shape[2:], node.ints("kernel_shape", None)
    if given is not None and any(isinstance(k, int) and k != g for k, g in zip(kernel, given, strict=False)):
        node.fail(f"{list(given)} differs from the weight's {type_of(weight)}", "kernel_shape")
    return n


def _per_axis(node: Node, attribute: str, n: int, least: int = 1) -> tuple[int, ...]:
    """An attribute with one number for each spatial axis; `least` is also what they are when it is absent."""
    values = node.ints(attribute, None) or (least,) * n
    if len(values) != n or min(values) < least:
        node.fail(f"{list(values)} are not {n} numbers of at least {least}, one for each spatial axis", attribute)
    return values


@onnx_op("ConvTranspose")
def conv_transpose(node: Node) -> ir.Value:
    return transposed_convolution(node)


def transposed_convolution(node: Node, pads: Sequence[Dim] | None = None, bias: int = 2) -> ir.Value:
    """ConvTranspose. pads: sizes before, then after each spatial axis, in place of the attribute; bias: its operand's index."""
    x, weight = node.required(0), node.required(1)
    n = _spatial_axes(node, x, weight)
    strides, dilations = _per_axis(node, "strides", n), _per_axis(node, "dilations", n)
    extra = _per_axis(node, "output_padding", n, 0)
    if pads is None or node.string("auto_pad", "NOTSET") != "NOTSET":
        low, high = _transposed_padding(node, n, strides, dilations, extra)
    else:
        if len(pads) != 2 * n:
            node.fail(f"{len(pads)} pads do not fit {n} spatial axes")
        low, high = list(pads[:n]), list(pads[n:])
    result = ops.conv_transpose(
        x,
        weight,
        strides=strides,
        dilations=dilations,
        low=tuple(low),
        high=tuple(high),
        extra=extra,
        groups=node.int("group", 1),
    )
    if not node.has_input(bias):
        return result
    return ops.add(result, along(node.required(bias), 1, n + 2))


def _transposed_padding(node: Node, n: int, strides, dilations, extra) -> tuple[list[Dim], list[Dim]]:
    """The padding that is cropped at both ends: given, or computed from the requested size."""
    auto = node.string("auto_pad", "NOTSET")
    sizes = node.ints("output_shape", None) or None
    if sizes is not None or auto != "NOTSET":
        node.no_effect("pads", because="the size of the result decides, or auto_pad")
    if sizes is None and auto in ("NOTSET", "VALID"):
        pads = node.ints("pads", None) or (0,) * (2 * n)
        if len(pads) != 2 * n:
            node.fail(f"{list(pads)} does not fit {n} spatial axes", "pads")
        return (list(pads[:n]), list(pads[n:])) if auto == "NOTSET" else ([0] * n, [0] * n)
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        node.fail(f"'{auto}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER", "auto_pad")
    low: list[Dim] = []
    high: list[Dim] = []
    dims, kernel = node.type(0).shape[2:], node.type(1).shape[2:]
    wanted: list[Dim] = [d * s for d, s in zip(dims, strides, strict=True)] if sizes is None else list(sizes[-n:])
    for d, s, e, k, t, w in zip(dims, strides, extra, kernel, dilations, wanted, strict=True):
        total = (d - 1) * s + e + (k - 1) * t + 1 - w
        cut = dim_max(
            total, 0
        )  # a result that is longer than the kernels reach is longer at its end, as in ONNX Runtime
        low.append(cut // 2 if auto == "SAME_UPPER" else cut - cut // 2)
        high.append(total - low[-1])
    return low, high
