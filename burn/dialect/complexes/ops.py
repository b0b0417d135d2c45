"""Ops between real and complex tensors. They exist until the pass `lower_complex` has run.

`view_as_real` and `view_as_complex` reinterpret memory: a complex tensor [...] is interleaved pairs [..., 2]. At the edges of a
lowered program they are the only complex ops left.
"""

from __future__ import annotations

from burn.dialect.adjoint.rules import rule
from burn.dialect.batching.rules import elementwise, leading
from burn.dialect.deferred import Value
from burn.dialect.op import Agreement, Op, Operand, same_type
from burn.dialect.pointwise import broadcast
from burn.dialect.traits import Trait
from burn.dialect.types import PARTS, WHOLES, TensorType, type_of


def _complex_only(cls: type[Op], z: TensorType) -> TensorType:
    if z.dtype not in PARTS:
        cls.fail(f"takes complex64 and complex128, not {z.dtype}")
    return z


class ComplexOf(Op, name="complex", batching=elementwise):
    """re + i im. Shapes: re, im broadcast to [...] -> [...], float32 or float64 -> complex64 or complex128."""

    re: Operand
    im: Operand

    @classmethod
    def infer(cls, re: TensorType, im: TensorType) -> TensorType:
        same_type(cls, re, im)
        if re.dtype not in WHOLES:
            cls.fail(f"the parts are float32 or float64, not {re.dtype}")
        return TensorType(WHOLES[re.dtype], broadcast(cls, re, im))

    def must_agree(self) -> list[Agreement]:
        out = type_of(self.operation.results[0]).shape
        shapes = [type_of(x).shape for x in self.operation.operands]
        pairs = [(d, t) for shape in shapes for d, t in zip(shape, out[len(out) - len(shape) :], strict=True)]
        return [Agreement(d, t, "broadcast") for d, t in pairs if d != 1]


class Real(Op, name="real", batching=elementwise):
    """The real part. Shapes: z [...] -> [...], complex64 or complex128 -> float32 or float64."""

    z: Operand

    @classmethod
    def infer(cls, z: TensorType) -> TensorType:
        return z.with_dtype(PARTS[_complex_only(cls, z).dtype])


class Imag(Op, name="imag", batching=elementwise):
    """The imaginary part. Shapes: z [...] -> [...], complex64 or complex128 -> float32 or float64."""

    z: Operand

    @classmethod
    def infer(cls, z: TensorType) -> TensorType:
        return z.with_dtype(PARTS[_complex_only(cls, z).dtype])


class Conj(Op, name="conj", batching=elementwise):
    """The complex conjugate. Shapes: z [...] -> [...], complex."""

    z: Operand

    @classmethod
    def infer(cls, z: TensorType) -> TensorType:
        return _complex_only(cls, z)


class ViewAsReal(Op, name="view_as_real", traits=Trait.ALIAS, batching=leading()):
    """The parts along a new last axis, in the same memory. Shapes: z [...] -> [..., 2]."""

    z: Operand

    @classmethod
    def infer(cls, z: TensorType) -> TensorType:
        return TensorType(PARTS[_complex_only(cls, z).dtype], (*z.shape, 2))


class ViewAsComplex(Op, name="view_as_complex", traits=Trait.ALIAS, batching=leading()):
    """The converse of `view_as_real`. Shapes: x [..., 2] -> [...], float32 or float64."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        if x.dtype not in WHOLES:
            cls.fail(f"takes float32 and float64, not {x.dtype}")
        if not x.rank or x.shape[-1] != 2:
            cls.fail(f"the last axis has a real and an imaginary part, not the sizes of {x}")
        return TensorType(WHOLES[x.dtype], x.shape[:-1])


# ---- derivatives -------------------------------------------------------------------------------------------------------
@rule("complex")
def complex_(g: Value, y: Value, re: Value, im: Value) -> list[Value]:
    return [Real.build(g), Imag.build(g)]


@rule("real")
def real(g: Value, y: Value, z: Value) -> Value:
    return ComplexOf.build(g, _zero(g))


@rule("imag")
def imag(g: Value, y: Value, z: Value) -> Value:
    return ComplexOf.build(_zero(g), g)


@rule("conj")
def conj(g: Value, y: Value, z: Value) -> Value:
    return Conj.build(g)


@rule("view_as_real")
def view_as_real(g: Value, y: Value, z: Value) -> Value:
    return ViewAsComplex.build(g)


@rule("view_as_complex")
def view_as_complex(g: Value, y: Value, x: Value) -> Value:
    return ViewAsReal.build(g)


def _zero(x: Value) -> Value:
    from burn.dialect.compose import number_like

    return number_like(0.0, x)
