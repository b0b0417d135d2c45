"""Contractions and convolutions: MatMul and Gemm if the axes fit, otherwise Einsum."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from burn.dialect.dims import Dim
from burn.dialect.op import Op
from burn.dialect.types import DTYPES, numpy_dtype, type_of
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.ops.window import windows

_BYTES = ("int8", "uint8")


@emits("dot_general")
def dot_general(site: Site) -> str:
    return contracted(site)


def contracted(site: Site, bias: str | None = None) -> str:
    """The contraction; a matmul of two matrices may have a bias [columns]."""
    lhs, rhs = site.inputs
    result = site.results[0].dtype
    working = _working(site.types[0].dtype, site.types[1].dtype, result)
    form = _matmul_form(site)
    if form is not None and working == "bytes":
        a, b = _sides(site, lhs, rhs, form)
        return site.node("MatMulInteger", a, b)
    if working == "bytes":
        working = result
    lhs, rhs = site.cast(lhs, working), site.cast(rhs, working)
    if form is None:
        return site.cast(_einsum(site, lhs, rhs), result)
    flat = site.types[0].rank == 2 == site.types[1].rank
    if flat and (any(form) or bias) and DTYPES[working].kind == "float":
        value = site.node("Gemm", lhs, rhs, bias, transA=int(form[0]) or None, transB=int(form[1]) or None)
    else:
        value = site.node("MatMul", *_sides(site, lhs, rhs, form))
    return site.cast(value, result)


def _working(lhs: str, rhs: str, result: str) -> str:
    """The type that is multiplied in; "bytes" where ONNX multiplies bytes into int32."""
    if lhs in _BYTES and rhs in _BYTES and result == "int32":
        return "bytes"
    return "float32" if result == "bfloat16" else "int64" if result == "uint64" else result


def _matmul_form(site: Site) -> tuple[bool, bool] | None:
    """(transpose lhs, transpose rhs) to match MatMul; None if it is not a MatMul."""
    attrs, (a, b) = site.attrs, (t.rank for t in site.types)
    batch = len(attrs["lhs_batch"])
    leading = tuple(range(batch))
    if attrs["lhs_batch"] != leading or attrs["rhs_batch"] != leading or len(attrs["lhs_contract"]) != 1:
        return None
    left, right = attrs["lhs_contract"][0] % a, attrs["rhs_contract"][0] % b
    if b != batch + 2 or (a != batch + 2 and (batch or a < 2)):
        return None
    if a != batch + 2 and left != a - 1:
        return None
    return left != a - 1, right != b - 2


def _sides(site: Site, lhs: str, rhs: str, form: tuple[bool, bool]) -> list[str]:
    sides = []
    for name, type_, turned in zip((lhs, rhs), site.types, form, strict=True):
        order = list(range(type_.rank))
        if turned:
            order[-2:] = order[:-3:-1]
        sides.append(site.transpose(name, order))
    return sides


def _einsum(site: Site, lhs: str, rhs: str) -> str:
    attrs, (a, b) = site.attrs, (t.rank for t in site.types)
    letters = iter(ascii_letters)
    left = [next(letters) for _ in range(a)]
    right: list[str] = [""] * b
    for x, y in zip(
        (*attrs["lhs_batch"], *attrs["lhs_contract"]), (*attrs["rhs_batch"], *attrs["rhs_contract"]), strict=True
    ):
        right[y] = left[x]
    right = [c or next(letters) for c in right]
    batch = [left[x] for x in attrs["lhs_batch"]]
    shared = {left[x] for x in (*attrs["lhs_batch"], *attrs["lhs_contract"])}
    result = [*batch, *(c for c in left if c not in shared), *(c for c in right if c not in shared)]
    return site.node("Einsum", lhs, rhs, equation=f"{''.join(left)},{''.join(right)}->{''.join(result)}")


# ---- convolution -------------------------------------------------------------------------------------------------------


@emits("conv")
def conv(site: Site) -> str:
    return convolved(site)


def convolved(site: Site, bias: str | None = None) -> str:
    """The convolution, with a bias [channels] where one is given (of floats, channels first)."""
    attrs = site.attrs
    if attrs["fill"] is not None:
        site.refuse("padding counts as a zero point", "export a program before the passes run")
    x, weight = site.inputs
    rank, result = site.types[0].rank, site.results[0].dtype
    last = attrs["layout"] == "last"
    if last:
        x = site.transpose(x, (0, rank - 1, *range(1, rank - 1)))
        weight = site.transpose(weight, (rank - 1, rank - 2, *range(rank - 2)))
    pads = [*attrs["low"], *attrs["high"]]
    types = [t.dtype for t in site.types]
    whole = all(t in _BYTES for t in types) and result == "int32"
    if not whole and DTYPES[result].kind != "float":
        value = _unfolded(site, x, weight, result)
        return site.transpose(value, (0, *range(2, rank), 1)) if last else value
    if not all(isinstance(p, int) for p in pads):
        zero = site.graph.literal(np.zeros((), numpy_dtype(site.types[0].dtype)))
        n = len(attrs["low"])
        x = site.node("Pad", x, site.vector((0, 0, *pads[:n], 0, 0, *pads[n:])), zero)
        pads = [0]
    common: dict[str, Any] = {
        "strides": _unless_ones(attrs["strides"]),
        "dilations": _unless_ones(attrs["dilations"]),
        "pads": pads if any(pads) else None,
        "group": attrs["groups"] if attrs["groups"] != 1 else None,
    }
    if whole:
        value = site.node("ConvInteger", x, weight, **common)
    else:
        value = site.node("Conv", site.cast(x, result), site.cast(weight, result), bias, **common)
    return site.transpose(value, (0, *range(2, rank), 1)) if last else value


def _unfolded(site: Site, x: str, weight: str, dtype: str) -> str:
    """The convolution of integers, which ONNX has for bytes alone, as a product of the windows with the weight."""
    attrs, n = site.attrs, len(site.attrs["strides"])
    last = attrs["layout"] == "last"
    out, kernel = site.results[0].shape, site.types[1].shape
    positions, window = (out[1:-1], kernel[:n]) if last else (out[2:], kernel[2:])
    if not all(isinstance(k, int) for k in window):
        site.refuse("a convolution of integers needs a kernel of known size")
    working = "int64" if dtype in ("uint32", "uint64", "int64") else "int32"
    x, weight = site.cast(x, working), site.cast(weight, working)
    if any((*attrs["low"], *attrs["high"])):
        x = site.node("Pad", x, site.vector((0, 0, *attrs["low"], 0, 0, *attrs["high"])), site.number(0, working))
    for i in range(n):
        x = windows(site, x, 2 + 2 * i, positions[i], attrs["strides"][i], int(window[i]), attrs["dilations"][i])
    groups = attrs["groups"]
    given, inputs, outputs = (type_.shape for type_ in (site.types[0], site.types[1], site.results[0]))
    channels = (given[-1] if last else given[1], outputs[-1] if last else outputs[1])
    spread = [d for pair in zip(positions, window, strict=True) for d in pair]
    x = site.reshape(x, (given[0], channels[0], *spread), (given[0], groups, channels[0] // groups, *spread))
    own = inputs[-2] if last else inputs[1]
    weight = site.reshape(weight, (channels[1], own, *window), (groups, channels[1] // groups, own, *window))
    walked, taken = ascii_letters[26 : 26 + n], ascii_letters[26 + n : 26 + 2 * n]
    pairs = "".join(a + b for a, b in zip(walked, taken, strict=True))
    value = site.node("Einsum", x, weight, equation=f"bgc{pairs},goc{taken}->bgo{walked}")
    shape = (given[0], groups, channels[1] // groups, *positions)
    return site.cast(site.reshape(value, shape, (given[0], channels[1], *positions)), dtype)


def _unless_ones(values: tuple[int, ...]) -> list[int] | None:
    return None if set(values) <= {1} else list(values)


def _plain_transposed(op: Op) -> bool:
    pads: tuple[Dim, ...] = (*op.attrs["low"], *op.attrs["high"])
    return all(isinstance(p, int) and p >= 0 for p in pads) and all(
        isinstance(d, int) for d in type_of(op.operation.operands[1]).shape
    )


@emits("conv_transpose", when=_plain_transposed, operator="ConvTranspose")
def conv_transpose(site: Site) -> str:
    attrs = site.attrs
    pads = [*attrs["low"], *attrs["high"]]
    return site.node(
        "ConvTranspose",
        *site.inputs,
        strides=_unless_ones(attrs["strides"]),
        dilations=_unless_ones(attrs["dilations"]),
        pads=pads if any(pads) else None,
        output_padding=list(attrs["extra"]) if any(attrs["extra"]) else None,
        group=attrs["groups"] if attrs["groups"] != 1 else None,
    )
