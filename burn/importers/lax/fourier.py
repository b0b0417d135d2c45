"""Fourier transforms over the last axes."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.complexes.pair import Complex
from burn.dialect.compose import transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import type_of
from burn.errors import TypeMismatch
from burn.fft import irfft
from burn.importers.lax.scalars import full, is_empty
from burn.tensors.base import made


def fft(z: Complex, kind: str, lengths: Sequence[Dim]) -> Complex | Value:
    """FFT, IFFT, RFFT (of the real part, which gives length // 2 + 1 numbers) or IRFFT (which gives a real tensor), over as many
    axes as there are lengths. Raises TypeMismatch for another kind."""
    shape = type_of(z.real).shape
    rank = len(shape)
    axes = list(range(rank - len(lengths), rank))
    if is_empty((*shape, *lengths)):
        return _of_nothing(z, kind, (*shape[: axes[0]], *lengths))
    if kind == "RFFT":
        re, im = _along(z, axes[-1], inverse=False, real=True)
        sizes = (*shape[:-1], lengths[-1] // 2 + 1)
        cut = [ops.slice(p, starts=(0,) * rank, sizes=sizes, steps=(1,) * rank) for p in (re, im)]
        return _over(Complex(*cut), axes[:-1], inverse=False)
    if kind == "IRFFT":
        z = _over(z, axes[:-1], inverse=True)
        return irfft((made(z.real), made(z.imag)), n=lengths[-1], axis=axes[-1]).value
    if kind not in ("FFT", "IFFT"):
        raise TypeMismatch("an unknown Fourier transform", [f"{kind} is none of FFT, IFFT, RFFT, IRFFT"])
    return _over(z, axes, inverse=kind == "IFFT")


def _of_nothing(z: Complex, kind: str, shape: Sequence[Dim]) -> Complex | Value:
    if kind == "RFFT":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    zeros = full(type_of(z.real).with_shape(tuple(shape)), 0)
    return zeros if kind == "IRFFT" else Complex(zeros, zeros)


def _over(z: Complex, axes: Sequence[int], inverse: bool) -> Complex:
    for axis in axes:
        z = Complex(*_along(z, axis, inverse))
    return z


def _along(z: Complex, axis: int, inverse: bool, real: bool = False) -> tuple[Value, Value]:
    rank = type_of(z.real).rank
    order = (*(a for a in range(rank) if a != axis), axis)
    back = tuple(order.index(a) for a in range(rank))
    re, im = (transpose(part, order) for part in (z.real, z.imag))
    found = ops.dft(re, None if real else im, inverse=inverse)
    return transpose(found[0], back), transpose(found[1], back)
