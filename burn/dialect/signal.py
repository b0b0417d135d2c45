"""The discrete Fourier transform. A composite: matmuls with matrices of roots of unity, factorised by Cooley and
Tukey's algorithm.

A length n = a * b costs n * (a + b) instead of n * n; prime or unknown lengths are one matmul. Real and imaginary parts
are separate tensors throughout.
"""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.batching.rules import together
from burn.dialect.compose import check_equal, dim_value, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, same_type
from burn.dialect.types import FLOATS, HALF_DTYPES, TensorType, may_equal, type_of

DIRECT = 48
"""Lengths up to this are not factorised: one matmul of that size is cheaper than two and a twiddle."""

Pair = tuple[ir.Value, "ir.Value | None"]
"""Real and imaginary part; None for zero."""


class Dft(Op, name="dft", batching=together):
    """sum over t of x[t] exp(-2 pi i k t / n) along the last axis; `inverse` uses the sign + and divides by n.

    Shapes: re and im [.., n] -> real and imaginary part [.., n]. An absent im is zero. Source: ONNX DFT.
    """

    re: Operand
    im: Operand | None
    inverse: bool = False

    @classmethod
    def infer(cls, re: TensorType, im: TensorType | None, inverse: bool) -> list[TensorType]:
        if re.dtype not in FLOATS or not re.rank:
            cls.fail(f"takes floats [.., n], not {re}")
        if im is not None:
            same_type(cls, re, im)
            if not may_equal(im.shape, re.shape):
                cls.fail(f"the real and the imaginary part have one shape, not {re} and {im}")
        return [re, re]

    @classmethod
    def decompose(cls, re: ir.Value, im: ir.Value | None, inverse: bool) -> list[ir.Value]:
        type_ = type_of(re)
        n = type_.shape[-1]
        if im is not None:
            check_equal(type_of(im).shape, type_.shape, "the real and the imaginary part have one shape")
            im = reshape(im, type_.shape)
        working = "float32" if type_.dtype in HALF_DTYPES else type_.dtype
        parts = [None if p is None else ops.cast(p, dtype=working) if working != type_.dtype else p for p in (re, im)]
        real, imaginary = transform((parts[0], parts[1]), n, 1.0 if inverse else -1.0)
        results = [real, imaginary]
        if inverse:
            results = [ops.div(p, dim_value(n, working)) for p in results]
        return results if working == type_.dtype else [ops.cast(p, dtype=type_.dtype) for p in results]


def factor(n: int) -> int:
    """The largest divisor of n up to its square root; 1 for a prime."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def roots(rows: Dim, columns: Dim, n: Dim, sign: float, dtype: str) -> tuple[ir.Value, ir.Value]:
    """cos and sign * sin of 2 pi j k / n for j < rows, k < columns.

    j k is reduced modulo n as an integer, and the angle is a float64, so that both keep full precision.
    """
    shape = (rows, columns)
    j, k = ops.iota(shape=shape, axis=0), ops.iota(shape=shape, axis=1)
    turn = ops.cast(ops.mod(ops.mul(j, k), dim_value(n)), dtype="float64")
    angle = ops.div(ops.mul(turn, number(sign * 2 * math.pi, "float64")), dim_value(n, "float64"))
    return ops.cast(ops.cos(angle), dtype=dtype), ops.cast(ops.sin(angle), dtype=dtype)


def times(x: Pair, c: ir.Value, s: ir.Value) -> Pair:
    """x * (c + i s), a complex multiplication."""
    re, im = x
    if im is None:
        return ops.mul(re, c), ops.mul(re, s)
    return ops.sub(ops.mul(re, c), ops.mul(im, s)), ops.add(ops.mul(re, s), ops.mul(im, c))


def dft_matmul(x: Pair, n: Dim, sign: float, axis: int) -> Pair:
    """The transform along one axis as a matmul with the matrix of roots; the result's axis comes last."""
    dtype = type_of(x[0]).dtype
    c, s = roots(n, n, n, sign, dtype)

    def dot(a: ir.Value, b: ir.Value) -> ir.Value:
        return ops.dot_general(a, b, lhs_contract=(axis,), rhs_contract=(0,))

    re, im = x
    if im is None:
        return dot(re, c), dot(re, s)
    return ops.sub(dot(re, c), dot(im, s)), ops.add(dot(re, s), dot(im, c))


def transform(x: Pair, n: Dim, sign: float) -> tuple[ir.Value, ir.Value]:
    """The transform along the last axis, of n elements.

    With n = a b, t = b t1 + t2 and k = k1 + a k2: transform over t1 of length a, multiply by the roots k1 t2 / n,
    transform over t2 of length b; the result is at [k2, k1]."""
    a = factor(n) if isinstance(n, int) and n > DIRECT else 1
    rank = type_of(x[0]).rank
    if a == 1:
        re, im = dft_matmul(x, n, sign, rank - 1)
        assert im is not None
        return re, im
    assert isinstance(n, int)
    b = n // a
    lead = type_of(x[0]).shape[:-1]
    grid = [None if p is None else reshape(p, (*lead, a, b)) for p in x]
    assert grid[0] is not None
    swapped = dft_matmul((grid[0], grid[1]), a, sign, rank - 1)  # [.., t2, k1]
    twiddled = times(swapped, *roots(b, a, n, sign, type_of(x[0]).dtype))
    order = (*range(rank - 1), rank, rank - 1)
    rows = [ops.transpose(p, permutation=order) for p in twiddled if p is not None]  # [.., k1, t2]
    re, im = transform((rows[0], rows[1]), b, sign)  # [.., k1, k2]
    re, im = (reshape(ops.transpose(p, permutation=order), (*lead, n)) for p in (re, im))
    return re, im
