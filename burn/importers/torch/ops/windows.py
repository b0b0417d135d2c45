"""Windows of signals. torch defines each over n samples; a periodic one is that of n + 1 samples without the last.

A window of one sample is 1. Only newer releases of torch take a window apart themselves, and only the Hann window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops, special
from burn.dialect.compose import convert, dim_value, number
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.importers.torch.node import Node, aten


def _window(node: Node, n: Dim, periodic: bool, of: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """of: the window as a function of the position, from 0 at the first sample to 1 at the last."""
    steps = dim_value(n) if periodic else ops.max(ops.sub(dim_value(n), number(1, "int64")), number(1, "int64"))
    at = ops.div(ops.iota(shape=(n,), axis=0, dtype="float64"), convert(steps, "float64"))
    single = ops.eq(dim_value(n), number(1, "int64"))
    return convert(ops.select(single, number(1.0, "float64"), of(at)), node.dtype)


def _cosines(at: ir.Value, *factors: float) -> ir.Value:
    """factors[0] - factors[1] cos(2 pi at) + factors[2] cos(4 pi at) - ..."""
    total = number(factors[0], "float64")
    for k, factor in enumerate(factors[1:], 1):
        wave = ops.cos(ops.mul(at, number(2 * math.pi * k, "float64")))
        total = ops.add(total, ops.mul(wave, number(factor * (-1) ** k, "float64")))
    return total


@aten("hann_window.default", "hann_window.periodic")
def hann(node: Node, n: Dim, periodic: bool = True, **keywords: Any) -> ir.Value:
    return _window(node, n, periodic, lambda at: _cosines(at, 0.5, 0.5))


@aten(*(f"hamming_window.{form}" for form in ("default", "periodic", "periodic_alpha", "periodic_alpha_beta")))
def hamming(
    node: Node, n: Dim, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **keywords: Any
) -> ir.Value:
    return _window(node, n, periodic, lambda at: _cosines(at, alpha, beta))


@aten("blackman_window.default", "blackman_window.periodic")
def blackman(node: Node, n: Dim, periodic: bool = True, **keywords: Any) -> ir.Value:
    return _window(node, n, periodic, lambda at: _cosines(at, 0.42, 0.5, 0.08))


@aten("bartlett_window.default", "bartlett_window.periodic")
def bartlett(node: Node, n: Dim, periodic: bool = True, **keywords: Any) -> ir.Value:
    """A triangle, 0 at both ends."""

    def triangle(at: ir.Value) -> ir.Value:
        one = number(1.0, "float64")
        return ops.sub(one, ops.abs(ops.sub(ops.mul(at, number(2.0, "float64")), one)))

    return _window(node, n, periodic, triangle)


@aten(*(f"kaiser_window.{form}" for form in ("default", "periodic", "beta")))
def kaiser(node: Node, n: Dim, periodic: bool = True, beta: float = 12.0, **keywords: Any) -> ir.Value:
    """I0(beta sqrt(1 - (2 at - 1)^2)) / I0(beta)."""
    bessel = special.bessel(0)

    def arch(at: ir.Value) -> ir.Value:
        one = number(1.0, "float64")
        off = ops.sub(ops.mul(at, number(2.0, "float64")), one)
        height = ops.sqrt(ops.max(ops.sub(one, ops.mul(off, off)), number(0.0, "float64")))
        return ops.div(bessel(ops.mul(height, number(beta, "float64"))), bessel(number(beta, "float64")))

    return _window(node, n, periodic, arch)
