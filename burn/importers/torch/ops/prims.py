"""torch's prims: what its reference decompositions are written in. Operands have one element type already.

Most of them are an ATen operator under another name (`SAME`, `FUNCTIONS`); those with arguments of their own follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, reshape, transpose
from burn.dialect.dims import Dim
from burn.dialect.functions import FUNCTIONS as SCALAR
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import BUILDERS, Node, aten
from burn.importers.torch.ops import factory, overwrite, pointwise, view
from burn.importers.torch.ops.pointwise import pair
from burn.importers.torch.ops.reduce import moments, reduced
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.control import while_loop

SAME: dict[str, Callable[..., Any]] = {
    **{
        name: BUILDERS[f"aten.{name}.default"]
        for name in (
            *(row.aten for row in SCALAR if row.aten and hasattr(torch.ops.prims, row.aten)),
            *("abs", "atan2", "bitwise_not", "ceil", "erfc", "exp2", "floor", "fmax", "fmin", "hypot", "isfinite"),
            *("log2", "log10", "neg", "round", "sign", "signbit", "trunc", "clone"),
        )
    },
    "where": pointwise.where,
    "shift_left": pointwise.shift_left,
    "shift_right_arithmetic": pointwise.shift_right,
    "view_of": view.identity,
    "device_put": view.identity,
    "copy_strided": view.identity,
    "view_of_dtype": view.bit_view,
    "reshape": view.shaped,
    "collapse": view.shaped,
    "collapse_view": view.shaped,
    "split_dim": view.shaped,
    "squeeze": view.shaped,
    "rev": view.flip,
    "cat": view.cat,
    "full": factory.full,
    "full_like": factory.full,
    "fill": factory.full,
    "scalar_tensor": factory.scalar_tensor,
    "empty": factory.zeros,
    "empty_strided": factory.zeros,
    "empty_permuted": factory.zeros,
    "as_strided_scatter": overwrite.as_strided_scatter,
}
"""Prim -> the builder of the ATen operator that it is."""

for _name, _builder in SAME.items():
    aten(f"{_name}.default", namespace="prims")(_builder)

FUNCTIONS = {
    **{name: name for name in ("add", "sub", "mul", "div", "fmod", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
    "maximum": "max",
    "minimum": "min",
    "remainder": "mod",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
}
"""Prim of two operands -> burn's function."""


@aten(*(f"{name}.default" for name in FUNCTIONS), namespace="prims")
def binary(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    return pair(FUNCTIONS[node.op.split(".")[1]], a, b)


@aten("fma.default", namespace="prims")
def fma(node: Node, a: Any, b: Any, c: Any) -> ir.Value:
    """a * b + c, tensors or numbers; rounded twice, as eager addcmul and lerp are on CPUs."""
    a, b, c = map(node.scalar, (a, b, c))
    return ops.add(ops.mul(a, b), c)


@aten("gcd.default", namespace="prims")
def gcd(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    """Greatest common divisors by Euclid's algorithm, of all elements in one loop."""

    def divided(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = state
        done = y == 0
        return done.where(x, y), done.where(0, x % done.where(1, y))

    first, second = (made(convert(x, node.dtype)).broadcast_to(*node.shape) for x in (a, b))
    return while_loop(lambda state: (state[1] != 0).any(), divided, (first.abs(), second.abs()))[0].value


# ---- shapes -------------------------------------------------------------------------------------------------------------
@aten("broadcast_in_dim.default", namespace="prims")
def broadcast_in_dim(node: Node, x: ir.Value, shape: list[Dim], axes: list[int]) -> ir.Value:
    """Axis i of x is axis axes[i] of the result."""
    laid = [1 if i not in axes else type_of(x).shape[axes.index(i)] for i in range(len(shape))]
    return broadcast_to(reshape(x, tuple(laid)), tuple(shape))


@aten("transpose.default", namespace="prims")
def permuted(node: Node, x: ir.Value, permutation: list[int]) -> ir.Value:
    return transpose(x, tuple(permutation))


@aten("iota.default", namespace="prims")
def iota(node: Node, length: Dim, *, start: Any, step: Any, **keywords: Any) -> ir.Value:
    index = ops.mul(ops.iota(shape=(length,), axis=0), node.scalar(step, "int64"))
    return node.as_result(ops.add(index, node.scalar(start, "int64")))


# ---- reductions ---------------------------------------------------------------------------------------------------------
REDUCTIONS = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}


@aten(*(f"{name}.default" for name in REDUCTIONS), namespace="prims")
def reduction(node: Node, x: ir.Value, dims: list[int] | None, **keywords: Any) -> ir.Value:
    """An empty list of axes reduces none."""
    axes = _axes(x, dims)
    return reduced(node.as_result(x), REDUCTIONS[node.op.split(".")[1]], axes, False) if axes else node.as_result(x)


@aten("var.default", namespace="prims")
def variance(node: Node, x: ir.Value, dims: list[int] | None, correction: Any = 1, **keywords: Any) -> ir.Value:
    return node.as_result(moments(x, _axes(x, dims), correction, False)[0])


def _axes(x: ir.Value, dims: list[int] | None) -> tuple[int, ...]:
    return tuple(range(type_of(x).rank)) if dims is None else tuple(sorted(dims))


# ---- random numbers -----------------------------------------------------------------------------------------------------
@aten("normal.default", namespace="prims")
def normal(node: Node, shape: list[Dim], *, mean: Any, std: Any, **keywords: Any) -> ir.Value:
    draws = ops.random_normal(node.importer.random_key(), shape=tuple(shape), dtype=node.dtype)
    return ops.add(ops.mul(draws, node.scalar(std)), node.scalar(mean))


# ---- rare functions -----------------------------------------------------------------------------------------------------
@aten("frexp.default", namespace="prims")
def frexp(node: Node, x: ir.Value) -> list[ir.Value]:
    """x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; 0, infinities and NaN have the exponent 0."""
    value = convert(x, "float64")
    tiny = ops.lt(ops.abs(value), number(2.0**-1022, "float64"))  # subnormal: scaled up first
    value = ops.select(tiny, ops.mul(value, number(2.0**54, "float64")), value)
    bias = ops.select(tiny, number(1022 + 54, "int64"), number(1022, "int64"))
    bits = ops.bitcast(value, dtype="int64")
    exponent = ops.and_(ops.shift_right(bits, number(52, "int64")), number(0x7FF, "int64"))
    plain = ops.and_(ops.ne(exponent, number(0x7FF, "int64")), ops.ne(value, number(0.0, "float64")))
    half = ops.or_(ops.and_(bits, number(~(0x7FF << 52), "int64")), number(1022 << 52, "int64"))
    mantissa = ops.select(plain, ops.bitcast(half, dtype="float64"), value)
    shifted = ops.select(plain, ops.sub(exponent, bias), number(0, "int64"))
    return [convert(mantissa, type_of(x).dtype), convert(shifted, "int32")]
