"""Contractions: matmuls, linear layers, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.compose import along, convert, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, broadcast_shapes, type_of
from burn.importers.torch.node import Node, aten


def dot(a: ir.Value, b: ir.Value) -> ir.Value:
    """The last axis of a with the last but one of b, or its only one."""
    last, inner = type_of(a).rank - 1, max(type_of(b).rank - 2, 0)
    return ops.dot_general(a, b, lhs_contract=(last,), rhs_contract=(inner,))


@aten("mm.default", "mv.default", "dot.default", "vdot.default")
def mm(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    if node.op == "aten.vdot.default" and type_of(a).dtype in PARTS:
        a = ops.conj(a)
    return dot(a, b)


@aten("_int_mm.default", "mm.dtype", "bmm.dtype")
def wide_mm(node: Node, a: ir.Value, b: ir.Value, *rest: Any) -> ir.Value:
    """A matmul with accumulation in the result's wider type."""
    batch, dtype = tuple(range(type_of(a).rank - 2)), node.result_type().dtype
    if not dtype.startswith("float"):
        a, b = node.as_result(a), node.as_result(b)
    axes = {"lhs_batch": batch, "rhs_batch": batch, "lhs_contract": (len(batch) + 1,), "rhs_contract": (len(batch),)}
    return ops.dot_general(a, b, **axes, dtype=dtype)


@aten("_scaled_mm.default")
def scaled_mm(
    node: Node,
    a: ir.Value,
    b: ir.Value,
    scale_a: ir.Value,
    scale_b: ir.Value,
    bias: ir.Value | None = None,
    scale_result: ir.Value | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> ir.Value:
    """A matmul of 8-bit floats with a scale for each tensor, or for each row of a and column of b."""
    (rows, _), (_, columns) = type_of(a).shape, type_of(b).shape
    for scale, whole in ((scale_a, (rows, 1)), (scale_b, (1, columns))):
        if type_of(scale).elements != 1 and type_of(scale).shape != whole:
            node.fail(f"scales of blocks, {type_of(scale)}, are not supported: only those of tensors, rows and columns")
    if scale_result is not None and node.result_type().dtype in FLOAT_NUMBERS:  # torch ignores it for other results
        node.fail(
            "scale_result is not supported for results of 8-bit floats: torch divides on CPUs and multiplies on GPUs"
        )
    total = ops.dot_general(a, b, lhs_contract=(1,), rhs_contract=(0,), dtype="float32")
    for scale in (scale_a, scale_b):
        total = ops.mul(total, reshape(scale, (1, 1)) if type_of(scale).elements == 1 else scale)
    if bias is not None:
        total = ops.add(total, convert(bias, "float32"))
    return node.as_result(total)


@aten("_trilinear.default")
def trilinear(
    node: Node,
    a: ir.Value,
    b: ir.Value,
    c: ir.Value,
    expand_a: list[int],
    expand_b: list[int],
    expand_c: list[int],
    summed: list[int],
    unroll_dim: int = 1,
) -> ir.Value:
    """Multiplies three tensors, each unsqueezed at the given axes, and sums over axes."""
    rank = type_of(a).rank + len(expand_a)
    factors = []
    for x, new in ((a, expand_a), (b, expand_b), (c, expand_c)):
        sizes = iter(type_of(x).shape)
        factors.append(reshape(x, tuple(1 if i in new else next(sizes) for i in range(rank))))
    return ops.reduce(ops.mul(ops.mul(factors[0], factors[1]), factors[2]), kind="sum", axes=tuple(sorted(summed)))


@aten("bmm.default")
def bmm(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    return batched(a, b, 1)


def batched(a: ir.Value, b: ir.Value, batch: int) -> ir.Value:
    axes = tuple(range(batch))
    return ops.dot_general(
        a, b, lhs_batch=axes, rhs_batch=axes, lhs_contract=(type_of(a).rank - 1,), rhs_contract=(batch,)
    )


@aten("matmul.default")
def matmul(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    """numpy's matmul: vectors, matrices, and stacks of them that broadcast."""
    p, q = type_of(a), type_of(b)
    if q.rank <= 2 or (p.rank == 1 and q.rank <= 2):
        return dot(a, b)
    if p.rank == 1:
        return reshape(matmul(node, reshape(a, (1, *p.shape)), b), node.shape)
    batch = broadcast_shapes(p.shape[:-2], q.shape[:-2])
    a = _stacked(a, batch)
    b = _stacked(b, batch)
    return batched(a, b, len(batch))


def _stacked(x: ir.Value, batch: tuple[Dim, ...]) -> ir.Value:
    shape = (*batch, *type_of(x).shape[-2:])
    return x if type_of(x).shape == shape else ops.broadcast_to(x, shape=shape)


@aten("linear.default")
def linear(node: Node, x: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """x w^T + bias; the weight is read as it lies."""
    last = type_of(x).rank - 1
    contracted = ops.dot_general(x, weight, lhs_contract=(last,), rhs_contract=(type_of(weight).rank - 1,))
    return contracted if bias is None else ops.add(contracted, bias)


def scaled(x: ir.Value, factor: Any, node: Node) -> ir.Value:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    return ops.mul(x, node.scalar(factor, type_of(x).dtype))


@aten("addmm.default", "addmv.default", "addbmm.default", "baddbmm.default")
def addmm(node: Node, c: ir.Value, a: ir.Value, b: ir.Value, beta: Any = 1, alpha: Any = 1) -> ir.Value:
    """beta * c + alpha * (a b); a c that counts for nothing may hold anything."""
    if node.op == "aten.addbmm.default":
        result = ops.dot_general(a, b, lhs_contract=(0, 2), rhs_contract=(0, 1))
    else:
        result = bmm(node, a, b) if node.op == "aten.baddbmm.default" else dot(a, b)
    result = scaled(result, alpha, node)
    if isinstance(beta, (int, float)) and beta == 0:
        return result
    return ops.add(result, scaled(c, beta, node))


@aten("outer.default", "ger.default")
def outer(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    return ops.mul(along(node.as_result(a), 0, 2), along(node.as_result(b), 1, 2))


# ---- convolutions -------------------------------------------------------------------------------------------------------
def each(values: Sequence[int], n: int) -> tuple[int, ...]:
    """One number stands for all axes."""
    return tuple(values) * n if len(values) == 1 else tuple(values)


def with_bias(x: ir.Value, bias: ir.Value | None) -> ir.Value:
    return x if bias is None else ops.add(x, along(convert(bias, type_of(x).dtype), 1, type_of(x).rank))


@aten("convolution.default")
def convolution(
    node: Node,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> ir.Value:
    n = type_of(weight).rank - 2
    if not 1 <= n <= 3:
        node.fail(f"takes 1 to 3 spatial axes, not a weight {type_of(weight)}")
    strides, pads, dilations = each(stride, n), each(padding, n), each(dilation, n)
    if transposed:
        result = ops.conv_transpose(
            x,
            weight,
            strides=strides,
            dilations=dilations,
            low=pads,
            high=pads,
            extra=each(output_padding, n),
            groups=groups,
        )
    else:
        result = ops.conv(x, weight, strides=strides, dilations=dilations, low=pads, high=pads, groups=groups)
    return with_bias(result, bias)
