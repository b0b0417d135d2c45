"""Quantisation of float32: the other types' roundings differ between runtimes, so those are written out."""

from __future__ import annotations

from typing import Any

from burn.codegen.onnx.emitters import Site, emits
from burn.dialect.types import type_of

BYTES = ("int8", "uint8")



def _quantises(op: Any) -> bool:
    x, scale = type_of(op.x), type_of(op.scale)
    single = x.dtype == scale.dtype == "float32" and op.precision in (None, "float32")
    return single and op.dtype in BYTES and not op.block and op.zero is not None


@emits("quantize", operator="QuantizeLinear", when=_quantises)
def quantize(site: Site) -> str:
    return site.node("QuantizeLinear", *site.inputs, axis=_axis(site))


def _dequantises(op: Any) -> bool:
    x, scale = type_of(op.x), type_of(op.scale)
    return scale.dtype == op.dtype == "float32" and not op.block and x.dtype in (*BYTES, "int32")


@emits("dequantize", when=_dequantises)
def dequantize(site: Site) -> str:
    x, scale, zero = site.inputs
    if site.types[0].dtype == "int32":  # whose zero point runtimes want to be 0 or absent
        zero = None if zero is None else site.node("Sub", x, _spread(site, zero))
        x, zero = (x if zero is None else zero), None
    return site.node("DequantizeLinear", x, scale, zero, axis=_axis(site))


def _spread(site: Site, zero: str) -> str:
    type_, rank = site.types[2], site.types[0].rank
    if type_.shape in ((), (1,)):
        return site.reshape(zero, type_.shape, ())
    axis = site.attrs["axis"] % rank
    return site.reshape(zero, type_.shape, [type_.shape[0] if i == axis else 1 for i in range(rank)])


def _axis(site: Site) -> int | None:
    """Of no account, and perhaps out of range, for one scale."""
    return None if site.types[1].shape in ((), (1,)) else site.attrs["axis"]
