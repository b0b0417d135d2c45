"""Quantisation of float32, whole. From and to the other floats runtimes round differently: those uses are written out."""

from __future__ import annotations

from typing import Any

from burn.dialect.types import type_of
from burn.exporters.onnx.emitters import Site, emits

BYTES = ("int8", "uint8")
TYPES: dict[int, tuple[str, ...]] = {
    18: BYTES,
    19: ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    21: ("int16", "uint16", "int4", "uint4"),
    23: ("float4_e2m1fn",),
    25: ("int2", "uint2"),
}
"""Opset -> the quantised types that it added. Blocks came with 21."""


def _single(op: Any, dtype: str) -> bool:
    return type_of(op.scale).dtype == "float32" == dtype


def _quantises(op: Any) -> bool:
    """A quotient in float32, and a zero point, which says the result's type."""
    return _single(op, type_of(op.x).dtype) and op.precision in (None, "float32") and op.zero is not None


def quantize(site: Site) -> str:
    block = site.attrs["block"] or None
    saturate = None if site.attrs["saturate"] else 0
    return site.node(
        "QuantizeLinear", *site.inputs, to=site.attrs["dtype"], axis=_axis(site), block_size=block, saturate=saturate
    )


def dequantize(site: Site) -> str:
    block = site.attrs["block"] or None
    return site.node("DequantizeLinear", *site.inputs, to="float32", axis=_axis(site), block_size=block)


def _enter(opset: int, types: tuple[str, ...]) -> None:
    @emits("quantize", since=opset, when=lambda op: op.dtype in types and not op.block and _quantises(op))
    def _quantize(site: Site) -> str:
        return quantize(site)

    @emits(
        "dequantize",
        since=opset,
        when=lambda op: type_of(op.x).dtype in types and not op.block and _single(op, op.dtype),
    )
    def _dequantize(site: Site) -> str:
        return dequantize(site)


for _opset, _types in TYPES.items():
    _enter(_opset, _types)

_ALL = tuple(t for opset, types in TYPES.items() for t in types if opset <= 21)


@emits("quantize", since=21, when=lambda op: op.dtype in _ALL and _quantises(op))
def quantize_blocks(site: Site) -> str:
    return quantize(site)


@emits("dequantize", since=21, when=lambda op: type_of(op.x).dtype in _ALL and _single(op, op.dtype))
def dequantize_blocks(site: Site) -> str:
    return dequantize(site)


@emits("dequantize", when=lambda op: type_of(op.x).dtype == "int32" and not op.block and _single(op, op.dtype))
def dequantize_int32(site: Site) -> str:
    """Runtimes want no zero point there."""
    x, scale, zero = site.inputs
    x = x if zero is None else site.node("Sub", x, _spread(site, zero))
    return site.node("DequantizeLinear", x, scale, to="float32", axis=_axis(site))


def _spread(site: Site, zero: str) -> str:
    type_, rank = site.types[2], site.types[0].rank
    if type_.shape in ((), (1,)):
        return site.reshape(zero, type_.shape, ())
    axis = site.attrs["axis"] % rank
    return site.reshape(zero, type_.shape, [type_.shape[0] if i == axis else 1 for i in range(rank)])


def _axis(site: Site) -> int | None:
    """Of no account, and perhaps out of range, for one scale."""
    return None if site.types[1].shape in ((), (1,)) else site.attrs["axis"]
