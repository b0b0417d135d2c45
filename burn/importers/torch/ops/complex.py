"""Operators on complex tensors, and the Fourier transforms that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.complexes.functions import FUNCTIONS, magnitude
from burn.dialect.complexes.pair import Complex, as_pairs, each, of_pairs, times
from burn.dialect.compose import convert, dim_value, number, number_like, part, reshape, transpose
from burn.dialect.dims import Dim, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.complexes import Part, by_parts, complex_aten
from burn.importers.torch.node import BUILDERS, Node
from burn.importers.torch.ops import contract, factory, index, reduce, view  # noqa: F401  (their builders are taken)

MOVED = (
    *("alias.default", "detach.default", "clone.default", "contiguous.default", "lift_fresh_copy.default"),
    *("view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "squeeze.dim", "squeeze.dims"),
    *("squeeze.default", "expand.default", "permute.default", "transpose.int", "t.default", "slice.Tensor"),
    *("select.int", "split.Tensor", "split_with_sizes.default", "unbind.int", "cat.default", "stack.default"),
    *("repeat.default", "flip.default", "unfold.default", "diagonal.default", "as_strided.default", "tril.default"),
    *("triu.default", "index_select.default", "index.Tensor", "gather.default", "slice_scatter.default"),
    *("select_scatter.default", "embedding.default", "neg.default", "sum.default", "sum.dim_IntList", "mean.default"),
    *("mean.dim", "cumsum.default", "reflection_pad1d.default", "zeros_like.default", "new_zeros.default"),
)
"""Operators that move elements or are linear in them."""
for _name in MOVED:
    complex_aten(f"aten.{_name}")(by_parts(f"aten.{_name}"))


def as_complex(node: Node, value: Any) -> Complex:
    """An operand as a pair of the result's parts: a real one has no imaginary part."""
    if isinstance(value, Complex):
        return value
    call = Part(node.fx, node.importer, node.op)
    if isinstance(value, complex):
        return Complex(number(value.real, call.dtype), number(value.imag, call.dtype))
    real = call.scalar(value)
    return Complex(real, zeros_of(real))


def zeros_of(x: ir.Value) -> ir.Value:
    return ops.broadcast_to(number_like(0, x), shape=type_of(x).shape)


# ---- between real and complex -----------------------------------------------------------------------------------------------
@complex_aten("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(node: Node, z: Complex) -> ir.Value:
    """[..] -> [.., 2]"""
    return as_pairs(z)


@complex_aten("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(node: Node, x: ir.Value) -> Complex:
    """[.., 2] -> [..]"""
    return of_pairs(x)


@complex_aten("aten.complex.default")
def complex_(node: Node, real: ir.Value, imag: ir.Value) -> Complex:
    return Complex(*(ops.broadcast_to(p, shape=node.shape) for p in (real, imag)))


@complex_aten("aten.polar.default")
def polar(node: Node, size: ir.Value, angle: ir.Value) -> Complex:
    return Complex(ops.mul(size, ops.cos(angle)), ops.mul(size, ops.sin(angle)))


@complex_aten("aten._to_copy.default", "prims.convert_element_type.default")
def converted(node: Node, value: Any, *rest: Any, **keywords: Any) -> Any:
    if not node.meta.is_complex():
        node.fail("a complex tensor becomes a real one; take its real part")
    z, dtype = as_complex(node, value), Part(node.fx, node.importer, node.op).dtype
    return Complex(convert(z.real, dtype), convert(z.imag, dtype))


@complex_aten("aten.copy.default")
def copied(node: Node, target: Any, source: Any, *rest: Any) -> Any:
    if not node.meta.is_complex():
        node.fail("a complex tensor is written to a real one; take its real part")
    z = as_complex(node, source)
    return Complex(*(ops.broadcast_to(p, shape=node.shape) for p in (z.real, z.imag)))


@complex_aten("aten.real.default", "prims.real.default")
def real(node: Node, z: Complex) -> ir.Value:
    return z.real


@complex_aten("aten.imag.default", "prims.imag.default")
def imag(node: Node, z: Complex) -> ir.Value:
    return z.imag


@complex_aten("aten.angle.default")
def angle(node: Node, z: Complex) -> ir.Value:
    return ops.atan2(z.imag, z.real)


# ---- arithmetic -------------------------------------------------------------------------------------------------------------
def _function(name: str) -> Callable[..., Any]:
    return lambda node, z: FUNCTIONS[name](z)


SAME = {
    "conj": ("aten._conj.default", "aten.conj_physical.default", "prims.conj.default", "aten._conj_physical.default"),
    "exp": ("aten.exp.default",),
    "sign": ("aten.sgn.default",),
    **{
        name: (f"aten.{name}.default",)
        for name in (
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "cos",
            "cosh",
            "log",
            "rsqrt",
            "sin",
            "sinh",
            "sqrt",
            "square",
            "tan",
            "tanh",
        )
    },
    "logistic": ("aten.sigmoid.default",),
}
"""Functions of one complex tensor -> the operators."""
for _own, _names in SAME.items():
    complex_aten(*_names)(_function(_own))
complex_aten("aten.abs.default")(lambda node, z: magnitude(z))


@complex_aten("aten.resolve_conj.default", "aten.resolve_neg.default")
def resolved(node: Node, z: Any) -> Any:
    return z


@complex_aten("aten.add.Tensor", "aten.sub.Tensor", "aten.add.Scalar", "aten.sub.Scalar")
def add(node: Node, a: Any, b: Any, alpha: Any = 1, **keywords: Any) -> Complex:
    alpha = keywords.get("alpha", alpha)
    a, b = as_complex(node, a), as_complex(node, b)
    if alpha != 1:
        b = times(b, as_complex(node, alpha))
    function = ops.add if "add" in node.op else ops.sub
    return Complex(function(a.real, b.real), function(a.imag, b.imag))


@complex_aten("aten.mul.Tensor", "aten.mul.Scalar")
def mul(node: Node, a: Any, b: Any) -> Complex:
    """A real factor scales both parts."""
    for z, factor in ((a, b), (b, a)):
        if isinstance(z, Complex) and not isinstance(factor, (Complex, complex)):
            scale = node.scalar(factor, type_of(z.real).dtype)
            return Complex(ops.mul(z.real, scale), ops.mul(z.imag, scale))
    return times(as_complex(node, a), as_complex(node, b))


@complex_aten("aten.div.Tensor", "aten.div.Scalar")
def div(node: Node, a: Any, b: Any) -> Complex:
    """a conj(b) / |b|^2"""
    a = as_complex(node, a)
    if not isinstance(b, (Complex, complex)):
        divisor = node.scalar(b, type_of(a.real).dtype)
        return Complex(ops.div(a.real, divisor), ops.div(a.imag, divisor))
    b = as_complex(node, b)
    top = times(a, Complex(b.real, ops.neg(b.imag)))
    bottom = ops.add(ops.mul(b.real, b.real), ops.mul(b.imag, b.imag))
    return Complex(ops.div(top.real, bottom), ops.div(top.imag, bottom))


@complex_aten("aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default", "aten.matmul.default")
def complex_matmul(node: Node, a: Any, b: Any) -> Complex:
    call = Part(node.fx, node.importer, node.op)
    return times(as_complex(node, a), as_complex(node, b), lambda x, y: BUILDERS[node.op](call, x, y))


@complex_aten("aten.where.self")
def where(node: Node, condition: ir.Value, a: Any, b: Any) -> Complex:
    a, b = as_complex(node, a), as_complex(node, b)
    return Complex(ops.select(condition, a.real, b.real), ops.select(condition, a.imag, b.imag))


@complex_aten("aten.constant_pad_nd.default")
def constant_pad(node: Node, z: Complex, pad: list[Dim], value: Any = 0) -> Complex:
    call, fill = Part(node.fx, node.importer, node.op), complex(value)
    builder = BUILDERS[node.op]
    return Complex(builder(call, z.real, pad, fill.real), builder(call, z.imag, pad, fill.imag))


# ---- Fourier transforms -----------------------------------------------------------------------------------------------------
def transformed(z: Complex, axis: int, inverse: bool) -> Complex:
    """Along one axis, without a factor."""
    rank = type_of(z.real).rank
    order = (*(i for i in range(rank) if i != axis), axis)
    back = tuple(order.index(i) for i in range(rank))
    n = type_of(z.real).shape[axis]
    re, im = ops.dft(transpose(z.real, order), transpose(z.imag, order), inverse=inverse)
    if inverse:  # burn's inverse divides by n
        size = dim_value(n, type_of(re).dtype)
        re, im = ops.mul(re, size), ops.mul(im, size)
    return Complex(transpose(re, back), transpose(im, back))


def normalised(x: ir.Value, sizes: list[Dim], normalization: int) -> ir.Value:
    """torch's fft_norm_mode: 0 as it is, 1 over the root of the number of elements, 2 over the number."""
    if normalization == 0:
        return x
    total = dim_value(product(sizes), "float64")
    divisor = ops.sqrt(total) if normalization == 1 else total
    return ops.mul(x, convert(ops.reciprocal(divisor), type_of(x).dtype))


@complex_aten("aten._fft_c2c.default")
def fft_c2c(node: Node, z: Complex, dims: list[int], normalization: int, forward: bool) -> Complex:
    sizes = [type_of(z.real).shape[d] for d in dims]
    for d in dims:
        z = transformed(z, node.axis(d, z.real), not forward)
    return each(z, lambda x: normalised(x, sizes, normalization))


@complex_aten("aten._fft_r2c.default")
def fft_r2c(node: Node, x: ir.Value, dims: list[int], normalization: int, onesided: bool) -> Complex:
    """Of real numbers; `onesided` keeps the first n // 2 + 1 along the last of the axes."""
    sizes = [type_of(x).shape[d] for d in dims]
    last = node.axis(dims[-1], x)
    z = transformed(Complex(x, zeros_of(x)), last, False)
    if onesided:
        z = each(z, lambda p: part(p, last, 0, floordiv(sizes[-1], 2) + 1))
    for d in dims[:-1]:
        z = transformed(z, node.axis(d, x), False)
    return each(z, lambda p: normalised(p, sizes, normalization))


@complex_aten("aten._fft_c2r.default")
def fft_c2r(node: Node, z: Complex, dims: list[int], normalization: int, last_size: Dim) -> ir.Value:
    """The inverse to real numbers: along the last axis, element k above n // 2 is the conjugate of n - k."""
    last = node.axis(dims[-1], z.real)
    shape = type_of(z.real).shape
    sizes = [*(shape[d] for d in dims[:-1]), last_size]
    for d in dims[:-1]:
        z = transformed(z, node.axis(d, z.real), True)
    k = ops.iota(shape=(last_size,), axis=0)
    own = ops.le(k, dim_value(floordiv(last_size, 2)))
    source = ops.select(own, k, ops.sub(dim_value(last_size), k))
    laid = tuple(last_size if i == last else 1 for i in range(len(shape)))
    re, im = (ops.gather(p, source, axis=last) for p in (z.real, z.imag))
    im = ops.select(reshape(own, laid), im, ops.neg(im))
    return normalised(transformed(Complex(re, im), last, True).real, sizes, normalization)
