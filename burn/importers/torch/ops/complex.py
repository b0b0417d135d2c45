"""Operators between real and complex tensors, and the Fourier transforms.

The dialect has complex element types (`burn/dialect/complexes`), and all builders take them. An op without a
rule for complex numbers is refused when the program is compiled.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, part, reshape, transpose
from burn.dialect.dims import Dim, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, type_of
from burn.importers.torch.node import Node, aten


@aten("view_as_real.default", "view_as_real_copy.default")
def view_as_real(node: Node, z: ir.Value) -> ir.Value:
    """[..] -> [.., 2]"""
    return ops.view_as_real(z)


@aten("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(node: Node, x: ir.Value) -> ir.Value:
    """[.., 2] -> [..]"""
    return ops.view_as_complex(x)


@aten("complex.default")
def complex_(node: Node, real: ir.Value, imag: ir.Value) -> ir.Value:
    return ops.complex(real, imag)


@aten("polar.default")
def polar(node: Node, size: ir.Value, angle: ir.Value) -> ir.Value:
    return ops.complex(ops.mul(size, ops.cos(angle)), ops.mul(size, ops.sin(angle)))


@aten("real.default")
@aten("real.default", namespace="prims")
def real(node: Node, z: ir.Value) -> ir.Value:
    return ops.real(z) if type_of(z).dtype in PARTS else z


@aten("imag.default")
@aten("imag.default", namespace="prims")
def imag(node: Node, z: ir.Value) -> ir.Value:
    return ops.imag(z)


@aten("_conj.default", "_conj_copy.default", "conj_physical.default", "_conj_physical.default")
@aten("conj.default", namespace="prims")
def conj(node: Node, z: ir.Value) -> ir.Value:
    return ops.conj(z) if type_of(z).dtype in PARTS else z


# ---- Fourier transforms -----------------------------------------------------------------------------------------------------
def transformed(z: ir.Value, axis: int, inverse: bool) -> ir.Value:
    """Along one axis, without a factor. z is real or complex."""
    rank = type_of(z).rank
    order = (*(i for i in range(rank) if i != axis), axis)
    back = tuple(order.index(i) for i in range(rank))
    n = type_of(z).shape[axis]
    moved = transpose(z, order)
    parts = (ops.real(moved), ops.imag(moved)) if type_of(z).dtype in PARTS else (moved, None)
    re, im = ops.dft(*parts, inverse=inverse)
    if inverse:  # burn's inverse divides by n
        size = dim_value(n, type_of(re).dtype)
        re, im = ops.mul(re, size), ops.mul(im, size)
    return transpose(ops.complex(re, im), back)


def normalised(x: ir.Value, sizes: list[Dim], normalization: int) -> ir.Value:
    """torch's fft_norm_mode: 0 as it is, 1 over the root of the number of elements, 2 over the number."""
    if normalization == 0:
        return x
    total = dim_value(product(sizes), "float64")
    divisor = ops.sqrt(total) if normalization == 1 else total
    return ops.mul(x, convert(ops.reciprocal(divisor), type_of(x).dtype))


@aten("_fft_c2c.default")
def fft_c2c(node: Node, z: ir.Value, dims: list[int], normalization: int, forward: bool) -> ir.Value:
    sizes = [type_of(z).shape[d] for d in dims]
    for d in dims:
        z = transformed(z, node.axis(d, z), not forward)
    return normalised(z, sizes, normalization)


@aten("_fft_r2c.default")
def fft_r2c(node: Node, x: ir.Value, dims: list[int], normalization: int, onesided: bool) -> ir.Value:
    """Of real numbers; `onesided` keeps the first n // 2 + 1 along the last of the axes."""
    sizes = [type_of(x).shape[d] for d in dims]
    last = node.axis(dims[-1], x)
    z = transformed(x, last, False)
    if onesided:
        z = part(z, last, 0, floordiv(sizes[-1], 2) + 1)
    for d in dims[:-1]:
        z = transformed(z, node.axis(d, x), False)
    return normalised(z, sizes, normalization)


@aten("_fft_c2r.default")
def fft_c2r(node: Node, z: ir.Value, dims: list[int], normalization: int, last_size: Dim) -> ir.Value:
    """The inverse to real numbers: along the last axis, element k above n // 2 is the conjugate of n - k."""
    last = node.axis(dims[-1], z)
    shape = type_of(z).shape
    sizes = [*(shape[d] for d in dims[:-1]), last_size]
    for d in dims[:-1]:
        z = transformed(z, node.axis(d, z), True)
    k = ops.iota(shape=(last_size,), axis=0)
    own = ops.le(k, dim_value(floordiv(last_size, 2)))
    source = ops.select(own, k, ops.sub(dim_value(last_size), k))
    laid = tuple(last_size if i == last else 1 for i in range(len(shape)))
    mirrored = ops.gather(z, source, axis=last)
    mirrored = ops.select(reshape(own, laid), mirrored, ops.conj(mirrored))
    return normalised(ops.real(transformed(mirrored, last, True)), sizes, normalization)
