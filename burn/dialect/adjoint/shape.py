"""Ops that only move elements: cotangents move back, and those of repeated elements are summed."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import rule
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import type_of


@rule("broadcast_to")
def broadcast_to(g: Value, y: Value, x: Value, shape: Any) -> Value:
    return g  # summed to x's shape, like every broadcast operand


@rule("reshape")
def reshape_(g: Value, y: Value, x: Value, shape: Any) -> Value:
    return reshape(g, type_of(x).shape)


@rule("transpose")
def transpose_(g: Value, y: Value, x: Value, permutation: tuple[int, ...]) -> Value:
    return transpose(g, tuple(permutation.index(i) for i in range(len(permutation))))


@rule("slice")
def slice_(
    g: Value, y: Value, x: Value, starts: tuple[Dim, ...], sizes: tuple[Dim, ...], steps: tuple[int, ...]
) -> Value:
    """Zeros before, between and after; a slice that runs backwards is reversed first."""
    if any(s < 0 for s in steps):
        turned = tuple(n - 1 if s < 0 else 0 for n, s in zip(sizes, steps, strict=True))
        g = ops.slice(g, starts=turned, sizes=sizes, steps=tuple(-1 if s < 0 else 1 for s in steps))
        starts = tuple(a + (n - 1) * s if s < 0 else a for a, n, s in zip(starts, sizes, steps, strict=True))
        steps = tuple(map(abs, steps))
    shape = type_of(x).shape
    high = tuple(d - (a + (n - 1) * s) - 1 for d, a, n, s in zip(shape, starts, sizes, steps, strict=True))
    if starts == (0,) * len(starts) and high == starts and all(s == 1 for s in steps):
        return g
    return ops.pad(g, number_like(0.0, g), low=starts, high=high, interior=tuple(s - 1 for s in steps))


@rule("pad")
def pad(
    g: Value, y: Value, x: Value, value: Value, low: tuple[Dim, ...], high: Any, interior: tuple[int, ...]
) -> list[Value]:
    shape = type_of(x).shape
    steps = tuple(i + 1 for i in interior) or (1,) * len(shape)
    inner = ops.slice(g, starts=low, sizes=shape, steps=steps)
    axes = tuple(range(len(shape)))
    outer = ops.sub(ops.reduce(g, kind="sum", axes=axes), ops.reduce(inner, kind="sum", axes=axes))
    return [inner, outer]


@rule("concat")
def concat(g: Value, y: Value, xs: list[Value], axis: int) -> list[list[Value]]:
    shape = type_of(g).shape
    axis %= len(shape)
    parts, start = [], 0
    for x in xs:
        size = type_of(x).shape[axis]
        starts = tuple(start if i == axis else 0 for i in range(len(shape)))
        sizes = tuple(size if i == axis else d for i, d in enumerate(shape))
        parts.append(ops.slice(g, starts=starts, sizes=sizes, steps=(1,) * len(shape)))
        start = start + size
    return [parts]
